"""The machine code of an executable has no trap, and no products that ptxas has serialised.

nvcc writes a trap where it finds undefined behaviour, such as the address of a constant that only the host has, and drops the
code after it. ptxas serialises the wgmma products of a kernel that has too few registers for them: each product is then a
group of its own, which makes them slow and changes no result.

usage: machine_code.py CUOBJDUMP EXECUTABLE [KERNEL]...

KERNEL: part of the name of a kernel whose products may be serialised.
"""

import collections
import re
import subprocess
import sys

PRODUCT = re.compile(r"\b[HQ]GMMA\.")
ENDS_GROUP = re.compile(r"\bgsb0 ;")
PRODUCTS_OF_A_GROUP = 3  # on average, at least


def main():
    cuobjdump, executable, *allowed = sys.argv[1:]
    lines = 0
    function = "?"
    trapped = set()
    products, groups = collections.Counter(), collections.Counter()
    with subprocess.Popen([cuobjdump, "-sass", executable], stdout=subprocess.PIPE, text=True) as dump:
        for line in dump.stdout:
            lines += 1
            if "Function :" in line:
                function = line.split(":", 1)[1].strip()
            elif "BPT.TRAP" in line:
                trapped.add(function)
            elif PRODUCT.search(line):
                products[function] += 1
                groups[function] += ENDS_GROUP.search(line) is not None
    if dump.returncode != 0 or lines < 1000 or not products:
        sys.exit(f"{cuobjdump} -sass {executable}: exit code {dump.returncode}, {lines} lines, products in {len(products)} kernels")
    serialised = {name for name in products if groups[name] * PRODUCTS_OF_A_GROUP > products[name]}
    faults = [f"{name}: BPT.TRAP" for name in sorted(trapped)]
    for name in sorted(serialised):
        if not any(kernel in name for kernel in allowed):
            faults.append(f"{name}: {products[name]} products in {groups[name]} groups: serialised")
    for kernel in allowed:
        if not any(kernel in name for name in serialised):
            faults.append(f"{kernel}: its products are not serialised; leave it out of the call of this test")
    print("\n".join(faults))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
