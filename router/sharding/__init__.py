"""One index dealt to several: what each shard answers, and the arms that they are together."""
