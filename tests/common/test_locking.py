import threading

import pytest

from fairseq_posattn.common.locking import locked


def test_a_second_run_waits_and_says_so_once(tmp_path):
    messages, ended = [], threading.Event()

    def second():
        with locked(tmp_path / ".lock", "it", tell=messages.append, meanwhile=looked.set):
            assert ended.is_set()
            messages.append("done")

    looked = threading.Event()
    with locked(tmp_path / ".lock", "it"):
        thread = threading.Thread(target=second)
        thread.start()
        for _ in range(2):
            assert looked.wait(60)
            looked.clear()
        ended.set()
    thread.join()
    assert messages == ["waiting for another run that is at work on it", "done"]


def test_a_second_run_may_give_up(tmp_path):
    def give_up():
        raise KeyboardInterrupt

    with (
        locked(tmp_path / ".lock", "it"),
        pytest.raises(KeyboardInterrupt),
        locked(tmp_path / ".lock", "it", meanwhile=give_up),
    ):
        pytest.fail("it had the lock")
    with locked(tmp_path / ".lock", "it", meanwhile=give_up):
        pass
