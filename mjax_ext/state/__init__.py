"""References, for those who transform programs that read and write them."""
