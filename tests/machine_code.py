"""The machine code of kernels has no trap, no products that ptxas has serialised and, if asked for, no spills.

nvcc writes a trap where it finds undefined behaviour, such as the address of a constant that only the host has, and drops the
code after it. ptxas serialises the wgmma products of a kernel that has too few registers for them: each product is then a
group of its own, which makes them slow and changes no result.

usage: machine_code.py CUOBJDUMP FILE --group N [--no-spills] [--serialised KERNEL]...
"""

import argparse
import collections
import re
import subprocess
import sys

PRODUCT = re.compile(r"\b[HQ]GMMA\.")
ENDS_GROUP = re.compile(r"\bgsb0 ;")
LOCAL = re.compile(r"\b(LDL|STL)\b")


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("cuobjdump")
    parser.add_argument("file")
    parser.add_argument("--group", type=int, required=True, help="products of a group, on average, at least")
    parser.add_argument("--no-spills", action="store_true", help="kernels with products access no local memory")
    parser.add_argument("--serialised", action="append", default=[], help="part of the name of a kernel whose products are")
    return parser.parse_args()


def counts_of(cuobjdump, file):
    """Numbers of traps, products, groups of them and accesses to local memory, by kernel."""
    traps, products, groups, local = (collections.Counter() for _ in range(4))
    lines, kernel = 0, "?"
    with subprocess.Popen([cuobjdump, "-sass", file], stdout=subprocess.PIPE, text=True) as dump:
        for line in dump.stdout:
            lines += 1
            if "Function :" in line:
                kernel = line.split(":", 1)[1].strip()
            elif PRODUCT.search(line):
                products[kernel] += 1
                groups[kernel] += ENDS_GROUP.search(line) is not None
            else:
                traps[kernel] += "BPT.TRAP" in line
                local[kernel] += LOCAL.search(line) is not None
    if dump.returncode != 0 or lines < 1000 or not products:
        sys.exit(f"{cuobjdump} -sass {file}: exit code {dump.returncode}, {lines} lines, products in {len(products)} kernels")
    return traps, products, groups, local


def main():
    o = options()
    traps, products, groups, local = counts_of(o.cuobjdump, o.file)
    serialised = {name for name in products if groups[name] * o.group > products[name]}
    faults = [f"{name}: BPT.TRAP" for name, count in traps.items() if count > 0]
    for name in sorted(serialised):
        if not any(kernel in name for kernel in o.serialised):
            faults.append(f"{name}: {products[name]} products in {groups[name]} groups: serialised")
    for kernel in o.serialised:
        if not any(kernel in name for name in serialised):
            faults.append(f"{kernel}: its products are not serialised; leave it out of the call of this test")
    if o.no_spills:
        faults += [f"{name}: {local[name]} accesses to local memory" for name in products if local[name] > 0]
    for fault in faults:
        print(fault)
    print(f"{len(products)} kernels with products, {len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
