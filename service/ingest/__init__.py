"""Documents that come over HTTP: read, checked, queued and written."""
