"""One file for each command of `wye`; what is slow to import is imported when a command runs."""
