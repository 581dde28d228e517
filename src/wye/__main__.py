"""`python -m wye` is the command `wye`."""

from wye.service.cli import main

main()
