"""Image and journal in unusual places: on block devices and on other file systems.

    place = places.FileSystem("xfs")
    server = places.server(image=place.file("disk.img"), journal=places.loop("8M", sector=4096))
    places.live_through(server)
"""
import atexit
import os
import subprocess

import attached
import harness

_made = 0


def requires(*programs):
    if os.geteuid() != 0:
        harness.skip("needs root")
    for program in ("losetup", "mount", *programs):
        harness.requires_program(program)
    if not attached.try_to("losetup", "-f"):
        harness.skip("no loop device")


def _new_name(kind):
    global _made
    _made += 1
    return harness.path(f"{kind}{_made}")


def new_file(file, size):
    with open(file, "wb") as made:
        made.truncate(harness.bytes_of(size))
    return file


def loop(size, sector=512):
    """A block device of this machine; the path of its device."""
    file = new_file(_new_name("behind"), size)
    device = attached.run("losetup", "-f", "--show", "-b", str(sector), file).strip()
    # Runs before the harness ends the servers: kill whoever still uses it.
    atexit.register(lambda: attached.try_to("losetup", "-d", device))
    return device


class FileSystem:
    MKFS = {"ext4": ["mkfs.ext4", "-q"], "xfs": ["mkfs.xfs", "-q"], "btrfs": ["mkfs.btrfs", "-q"]}

    def __init__(self, kind, size="512M"):
        self.directory = _new_name("mnt")
        os.mkdir(self.directory)
        if kind == "tmpfs":
            attached.run("mount", "-t", "tmpfs", "-o", f"size={size}", "none", self.directory)
        else:
            harness.requires_program(self.MKFS[kind][0])
            self.device = loop(size)
            attached.run(*self.MKFS[kind], self.device)
            attached.run("mount", self.device, self.directory)
        atexit.register(lambda: attached.try_to("umount", "-l", self.directory))

    def file(self, name, size=None):
        path = os.path.join(self.directory, name)
        return path if size is None else new_file(path, size)


class Fuse:
    """One file of this size; no extended attributes.  The filter can make it slow."""

    def __init__(self, size, *filter_options):
        self.directory, ready = _new_name("fuse"), _new_name("ready")
        os.mkdir(self.directory)
        self.file = os.path.join(self.directory, "file")
        process = subprocess.Popen(["nbdfuse", "-P", ready, self.file, "--command", "nbdkit", "-s", "memory", str(size),
                                    *filter_options], stdin=subprocess.DEVNULL)
        attached.eventually("nbdfuse is ready", lambda: os.path.exists(ready))

        def gone():
            attached.try_to("umount", "-l", self.directory)
            process.wait()
        atexit.register(gone)


def server(image, journal):
    made = harness.Server(None, parameters=[f"journal={journal}", "journal-size=3M"], start=False)
    made.image, made.journal = image, journal
    return made


def live_through(server):
    """Changes, kill -9, more of them, a clean stop: the image alone is right."""
    server.start()
    disk = harness.Disk(server, seed=len(server.image))
    disk.survive(120)
    server.kill()
    server.start()
    disk.check("after the second kill -9")
    server.stop()
    disk.check_file(server.image)
