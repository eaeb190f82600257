"""`chakra view`: a local web app on runs of any size; the server cuts them to what a screen can show."""
