"""Checks the machine code of kernels that multiply: nothing spilled to local memory, and products that are issued in groups.
Where ptxas serialises products, each is a group of its own.

usage: machine_code.py CUOBJDUMP LIBRARY
"""

import re
import subprocess
import sys

PRODUCT = re.compile(r"\b[HQ]GMMA\.")
ENDS_GROUP = re.compile(r"\bgsb0 ;")
LOCAL = re.compile(r"\b(LDL|STL)\b")
PRODUCTS_OF_A_GROUP = 4


def functions(listing):
    """The name and the instructions of each function."""
    for part in listing.split("Function : ")[1:]:
        name, *lines = part.splitlines()
        yield name, [line for line in lines if ";" in line]


def faults_of(lines, products):
    groups = sum(1 for line in products if ENDS_GROUP.search(line))
    local = sum(1 for line in lines if LOCAL.search(line))
    if local:
        yield f"{local} accesses to local memory"
    if groups * PRODUCTS_OF_A_GROUP > len(products):
        yield f"{len(products)} products in {groups} groups"


def main():
    cuobjdump, library = sys.argv[1:]
    listing = subprocess.run([cuobjdump, "-sass", library], capture_output=True, text=True, check=True).stdout
    kernels = faults = 0
    for name, lines in functions(listing):
        products = [line for line in lines if PRODUCT.search(line)]
        if not products:
            continue
        kernels += 1
        for fault in faults_of(lines, products):
            print(f"{name}: {fault}")
            faults += 1
    print(f"{kernels} kernels with products, {faults} faults")
    sys.exit(1 if faults or kernels == 0 else 0)


if __name__ == "__main__":
    main()
