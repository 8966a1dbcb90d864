"""``fairseq-interactive --constraints`` with words that no translation can have: it ends.

fairseq (0.12.2 and fairseq-fixed 0.12.3.1) goes on with a sentence until its constraints are met,
and after as many steps as ``--max-len-a`` and ``--max-len-b`` allow it fails an assertion, ``200 <
200``; what shares the batch is lost, too. Here that sentence has no hypothesis, and a line says so.
"""

import sys

from fairseq import search, utils
from fairseq.tasks import FairseqTask
from fairseq.token_generation_constraints import unpack_constraints

from fairseq_posattn.compat.command_loops import interactive_loop
from fairseq_posattn.compat.patching import around


@around(search.LexicallyConstrainedBeamSearch, "__init__")
def _stop_in_time(init, self, *args, **kwargs):
    init(self, *args, **kwargs)
    self.stop_on_max_len = True


@around(lambda: interactive_loop() and FairseqTask, "inference_step")
def _tell_of_the_unmet(inference_step, task, generator, models, sample, *args, **kwargs):
    found = inference_step(task, generator, models, sample, *args, **kwargs)
    constraints = kwargs.get("constraints")
    for row, hypotheses in enumerate(found if constraints is not None else ()):
        if not hypotheses:
            dictionary = task.source_dictionary
            tokens = utils.strip_pad(sample["net_input"]["src_tokens"][row], dictionary.pad())
            text = dictionary.string(tokens)
            wanted = map(task.target_dictionary.string, unpack_constraints(constraints[row]))
            print(
                f"fairseq_posattn: warning: no translation of {text!r} with "
                f"{', '.join(map(repr, wanted))} in it was found within --max-len-a, --max-len-b "
                "and --no-repeat-ngram-size",
                file=sys.stderr,
            )
    return found
