"""Training that is stopped by a signal, cannot write, or cannot resume."""

import functools
import os
import resource
import signal
import socket
import time

import forked_commands
import pytest
from fairseq.trainer import Trainer
from kill_and_resume import Training, differences, end_of, ends_of

# Ends after twelve minutes if a test fails to stop it.
ENDLESS = ("--stop-time-hours", "0.2", "--log-interval", "1", "--save-interval-updates", "0")


def wait_for(log, text):
    deadline = time.monotonic() + 600
    while not (log.exists() and text in log.read_text()):
        assert time.monotonic() < deadline, log.read_text() if log.exists() else "nothing written"
        time.sleep(0.02)


def plugin_messages(log):
    """Return the plugin's messages, without those of fairseq."""
    lines = log.read_text().splitlines()
    assert "Traceback" not in log.read_text(), log.read_text()
    return [line.partition(": ")[2] for line in lines if line.startswith("fairseq_posattn: ")]


def updates_in(save_dir):
    return end_of(save_dir)["schedule"]["num_updates"]


@pytest.mark.parametrize(
    "number, name, processes, flags",
    [
        (signal.SIGINT, "Ctrl-C", 1, ("--num-workers", "2")),
        (signal.SIGTERM, "SIGTERM", 2, ("--bf16",)),
    ],
)
def test_a_signal_saves_and_the_run_resumes_exactly(tmp_path, number, name, processes, flags):
    """One process receives the signal; all stop."""
    flags = (*ENDLESS, "--disable-validation", *flags)  # a stop adds no validation
    training = Training(tmp_path, flags=flags, processes=processes)
    saved = tmp_path / "saved"
    started, logs = training.start(saved)
    wait_for(logs[0], "epoch 001:      3 /")
    os.kill(started[-1].pid, number)
    assert ends_of(started) == [128 + number] * processes

    last, updates = saved / "checkpoint_last.pt", updates_in(saved)
    *_, end = plugin_messages(logs[0])
    assert end == f"stopped by {name} after {updates} updates; the same command resumes from {last}"
    others = [line for log in logs[1:] for line in plugin_messages(log)]
    assert not any(line.startswith("stopped") for line in others)

    further = ("--max-update", str(updates + 3))
    on = Training(tmp_path, flags=(*flags, *further), processes=processes)
    on.finish(saved)
    on.finish(tmp_path / "alone")
    assert differences(saved, tmp_path / "alone") == []


def train_slowly(seconds=60):
    """Make each update after the third take some seconds."""
    step = Trainer.train_step

    def slow_step(self, *args, **kwargs):
        if self.get_num_updates() == 3:
            print("now", flush=True)
            time.sleep(seconds)
        return step(self, *args, **kwargs)

    Trainer.train_step = slow_step


def test_a_second_ctrl_c_stops_at_once(tmp_path):
    [process], [log] = Training(tmp_path, flags=ENDLESS, before=train_slowly).start(tmp_path / "s")
    wait_for(log, "\nnow\n")
    os.kill(process.pid, signal.SIGINT)
    wait_for(log, "Ctrl-C now stops at once")
    os.kill(process.pid, signal.SIGINT)
    process.join(30)
    assert process.exitcode == -signal.SIGINT
    assert not (tmp_path / "s" / "checkpoint_last.pt").exists()


def test_a_second_sigterm_is_the_same(tmp_path):
    """A recipe that is stopped sends it to all processes, and the first passes it on."""
    slowly = functools.partial(train_slowly, 5)
    [process], [log] = Training(tmp_path, flags=ENDLESS, before=slowly).start(tmp_path / "s")
    wait_for(log, "\nnow\n")
    os.kill(process.pid, signal.SIGTERM)
    wait_for(log, "Ctrl-C now stops at once")
    os.kill(process.pid, signal.SIGTERM)
    assert ends_of([process]) == [128 + signal.SIGTERM]
    assert (tmp_path / "s" / "checkpoint_last.pt").exists()


def interrupt_the_start():
    build = Trainer.__init__

    def build_and_interrupt(self, *args, **kwargs):
        build(self, *args, **kwargs)
        os.kill(os.getpid(), signal.SIGINT)

    Trainer.__init__ = build_and_interrupt


def test_ctrl_c_before_the_first_update(tmp_path):
    training = Training(tmp_path, before=interrupt_the_start)
    [process], [log] = training.start(tmp_path / "saved")
    assert ends_of([process]) == [130]
    assert plugin_messages(log) == ["stopped by Ctrl-C"]


@pytest.mark.nightly
@pytest.mark.parametrize("number, code", [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 1)])
def test_fairseq_ends_without_saving(tmp_path, number, code):
    without = functools.partial(forked_commands.leave_out, "listen", "end_in_one_line")
    [process], [log] = Training(tmp_path, flags=ENDLESS, before=without).start(tmp_path / "saved")
    wait_for(log, "epoch 001:      1 /")
    os.kill(process.pid, number)
    assert ends_of([process]) == [code]
    assert not (tmp_path / "saved" / "checkpoint_last.pt").exists()
    assert ("Traceback" in log.read_text()) == (number == signal.SIGINT)


@pytest.mark.parametrize(
    "without, workers, code, name",
    [
        ((), "1", 143, "SIGTERM"),
        pytest.param(
            ("pass_on_sigterm",), "0", -signal.SIGTERM, "Ctrl-C", marks=pytest.mark.nightly
        ),
    ],
)
def test_sigterm_to_the_first_process_stops_the_spawned_processes(
    tmp_path, without, workers, code, name
):
    """Without the patch the first process ends alone, and Linux interrupts the others.

    They may then end before they have saved.
    """
    flags = (*ENDLESS, "--disable-validation", "--update-freq", "1", "--num-workers", workers)
    flags += ("--distributed-world-size", "2", "--distributed-backend", "gloo")
    flags += ("--ddp-backend", "legacy_ddp")
    before = functools.partial(forked_commands.with_two_devices, *without)
    [process], [log] = Training(tmp_path, flags=flags, before=before).start(tmp_path / "saved")
    wait_for(log, "epoch 001:      2 /")
    process.terminate()
    assert ends_of([process]) == [code], log.read_text()
    assert "training on 2 devices" in log.read_text()
    wait_for(log, f"{name}: stopping after this update")
    if not without:
        end = f"stopped by {name} after {updates_in(tmp_path / 'saved')} updates; "
        assert plugin_messages(log)[-1].startswith(end)


def limit_files(size):
    """Limit the size of files, which fails like a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def test_a_full_disk_leaves_the_last_good_checkpoint(tmp_path):
    saved = tmp_path / "saved"
    Training(tmp_path, flags=("--max-update", "2")).finish(saved)
    names, content = sorted(saved.iterdir()), (saved / "checkpoint_last.pt").read_bytes()
    limit = functools.partial(limit_files, len(content) // 2)
    [code], [log] = Training(tmp_path, flags=("--max-update", "4"), before=limit).run(saved)
    assert code == 1
    *_, last = log.splitlines()
    assert last == (
        f"fairseq_posattn: error: {saved}/checkpoint_1_3.pt cannot be written: File too large; "
        "earlier checkpoints are unchanged"
    )
    assert "Traceback" not in log
    assert sorted(saved.iterdir()) == names
    assert (saved / "checkpoint_last.pt").read_bytes() == content


def test_two_runs_do_not_share_a_folder(tmp_path):
    saved = tmp_path / "saved"
    [process], [log] = Training(tmp_path, flags=(*ENDLESS, "--num-workers", "2")).start(saved)
    wait_for(log, "epoch 001:      1 /")
    holder = f"process {process.pid} on {socket.gethostname()}"
    [code], [refused] = Training(tmp_path).run(saved)
    assert code == 1 and "Traceback" not in refused and "begin training epoch" not in refused
    assert refused.splitlines()[-1] == (
        f"fairseq_posattn: error: --save-dir {saved} is in use by {holder}: wait for its end, or "
        "give another --save-dir"
    )
    (saved / "checkpoint_1_9.pt.tmp").touch()
    process.kill()
    process.join()
    Training(tmp_path, flags=("--max-update", "1")).finish(saved)  # a dead process holds no lock
    assert not list(saved.glob("*.tmp"))
