"""Checks the presets of a folder against its schema.json. Exits with 77 if jsonschema is not installed."""

import json
import pathlib
import sys

try:
    import jsonschema
except ImportError:
    print("python3-jsonschema is not installed")
    sys.exit(77)

folder = pathlib.Path(sys.argv[1])
schema = json.loads((folder / "schema.json").read_text())
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema)
problems = []
for path in sorted(folder.glob("*.json")):
    if path.name == "schema.json" or path.name.endswith(".sim.json"):  # the simulator's calibrations
        continue
    preset = json.loads(path.read_text())
    problems += [f"{path.name}: {error.json_path}: {error.message}" for error in validator.iter_errors(preset)]
    if preset.get("name") != path.stem:
        problems.append(f"{path.name}: name: found {preset.get('name')!r}, expected {path.stem!r}")
    broken = preset | {"hidden_size": 2049}
    if validator.is_valid(broken):
        problems.append(f"{path.name}: the schema lets hidden_size 2049 pass")
print("\n".join(problems))
sys.exit(1 if problems else 0)
