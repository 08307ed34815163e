"""TensorBoard itself opens our event files: every scalar with its step, and a resumed run replaces the later steps."""
import os
import struct
import subprocess
import sys
import tempfile

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def near(a, b):
    return abs(a - b) <= 1e-6 * abs(b)


def main():
    with tempfile.TemporaryDirectory(prefix="distill-events-") as folder:
        subprocess.run([sys.argv[1], folder], check=True)
        files = sorted(os.listdir(folder))
        assert len(files) == 2, files
        events = EventAccumulator(folder)
        events.Reload()
        assert sorted(events.Tags()["scalars"]) == ["train/learning_rate", "train/loss"], events.Tags()
        losses = [(event.step, event.value) for event in events.Scalars("train/loss")]
        assert [step for step, _ in losses] == [1, 2, 3, 4, 5, 6], losses
        for step, value in losses:
            assert near(value, 1 / step + (1 if step < 5 else 5)), losses
        for event in events.Scalars("train/learning_rate"):
            assert near(event.value, 1e-4 * event.step), event
        # A flipped byte must make TensorBoard stop: the checksums that it accepted above are really compared.
        path = os.path.join(folder, files[0])
        with open(path, "r+b") as file:
            content = bytearray(file.read())
            length = struct.unpack("<Q", content[:8])[0]
            content[12 + length + 4 + 12 + 3] ^= 1
            file.seek(0)
            file.write(content)
        os.remove(os.path.join(folder, files[1]))
        damaged = EventAccumulator(folder)
        damaged.Reload()
        assert not damaged.Tags()["scalars"], damaged.Tags()
    print("ok: TensorBoard reads 2 curves of 6 steps")


main()
