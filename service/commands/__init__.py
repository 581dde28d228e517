"""The commands of `wye`, each in its file; slow imports wait until a command runs."""
