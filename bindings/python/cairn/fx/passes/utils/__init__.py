"""Help for passes."""
