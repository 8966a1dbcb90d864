"""``posattn look``: a page on which one points at a word and sees where it attends."""
