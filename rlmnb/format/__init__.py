"""What a session and a cell are: the models, their plain-dict makers, and their migrations."""
