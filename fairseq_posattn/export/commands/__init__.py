"""The commands of this package; only ``cli`` imports them."""
