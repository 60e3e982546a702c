/* loop: see loop.h. */
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "loop.h"

bool loop_attach(struct loop *loop, const char *file, unsigned sector_bytes, bool read_only,
                 int *fd, const char **why)
{
    struct loop_config config = {
        .block_size = sector_bytes,
        .info.lo_flags = LO_FLAGS_AUTOCLEAR | (read_only ? LO_FLAGS_READ_ONLY : 0),
    };
    int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    int backing = open(file, (read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC);
    bool attached = false;

    *why = control == -1 ? "can't open /dev/loop-control (root only)" : "can't open the file";
    if (control == -1 || backing == -1)
        goto out;
    config.fd = backing;
    *why = "LOOP_CONFIGURE failed";
    for (int i = 0; i < 20 && !attached; i++) { /* another test may be faster */
        int number = ioctl(control, LOOP_CTL_GET_FREE);

        if (number == -1)
            break;
        snprintf(loop->path, sizeof(loop->path), "/dev/loop%d", number);
        *fd = open(loop->path, O_RDWR | O_CLOEXEC);
        if (*fd == -1)
            break;
        attached = ioctl(*fd, LOOP_CONFIGURE, &config) == 0;
        if (!attached) {
            int e = errno;

            close(*fd);
            if (e != EBUSY)
                break;
        }
    }

out:
    if (control != -1)
        close(control);
    if (backing != -1)
        close(backing);
    return attached;
}
