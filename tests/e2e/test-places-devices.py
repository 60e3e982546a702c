#!/usr/bin/python3
"""Image and journal on block devices, with small and large sectors, also of a size that is no multiple of
4 KiB."""
import attached
import harness
import places

places.requires()
for sector in (512, 4096):
    # The kernel cuts a loop device to whole sectors of 512 bytes.
    for size in (16 << 20, (16 << 20) + 5 * 512):
        size -= size % sector
        journal = places.loop("4M", sector)
        attached.run(harness.NBDJOURNAL, "create", journal)
        places.live_through(places.server(image=places.loop(size, sector), journal=journal))
