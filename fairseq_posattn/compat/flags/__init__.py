"""What people get wrong on fairseq's command lines, and one line that says so and how to mend it.

:mod:`~.settings` looks at all settings before anything is read or written; :mod:`~.ranges` knows
which numbers make sense; :mod:`~.data_folder` looks whether the data is there; and what only shows
later :mod:`~.explanations` puts in a line. None of them changes fairseq: the mends call them.
"""
