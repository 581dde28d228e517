"""An index divided into shards: what each shard answers, and the arms over all of them."""
