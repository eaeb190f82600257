"""Studies of training whose samples, ranks or models differ from one another."""
