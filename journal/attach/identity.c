/* identity: what an image is, and the mark that it bears while a journal holds data for it.
 *
 * Inode numbers are used again: on ext4 a deleted image and its copy often get the same one.
 * So a file is recognised by its mark, a random number of ours in an extended attribute, and
 * the inode only has to agree with it (copies can take attributes along).
 *
 * A block device bears no mark.  Its device number can change with each boot, and another disk
 * can get it: so the serial number or the like counts if the device has one, and the device
 * number only if not.  A loop device is told by the inode of its file.
 */
#include <errno.h>
#include <inttypes.h>
#include <linux/loop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "attach.h"
#include "report.h"

#define MARK_NAME "user.nbdkit.journal"

/* Some file systems have 4 KiB for all attributes of a file; a longer path is shortened. */
#define MARK_PATH_MAX 1000

/* ---- block devices ---- */

/* One line of a file below /sys, without blanks at its ends; false if there is none. */
static bool sys_line(dev_t device, const char *name, char *out, size_t out_bytes)
{
    char path[128];
    FILE *f;
    size_t len = 0;
    int c;

    snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%s", major(device), minor(device), name);
    f = fopen(path, "re");
    if (f == NULL)
        return false;
    while (len + 1 < out_bytes && (c = getc(f)) != EOF && c != '\n') {
        if (len > 0 || c != ' ')
            out[len++] = c;
    }
    while (len > 0 && out[len - 1] == ' ')
        len--;
    out[len] = '\0';
    fclose(f);
    return len > 0;
}

/* The text that a device says about itself, the same after each boot; false if nothing. */
static bool device_text(int fd, dev_t device, char *out, size_t out_bytes)
{
    static const char *const whole[] = {"dm/uuid",     "md/uuid", "wwid",
                                        "device/wwid", "serial",  "device/serial"};
    static const char *const part[] = {"../wwid", "../device/wwid", "../serial",
                                       "../device/serial"};
    struct loop_info64 loop;
    char id[256], start[32];

    if (ioctl(fd, LOOP_GET_STATUS64, &loop) == 0) {
        snprintf(out, out_bytes, "loop %" PRIu64 " %" PRIu64 " %" PRIu64,
                 (uint64_t)loop.lo_inode, (uint64_t)loop.lo_offset,
                 (uint64_t)loop.lo_sizelimit);
        return true;
    }
    if (sys_line(device, "partition", id, sizeof(id)) &&
        sys_line(device, "start", start, sizeof(start))) {
        for (size_t i = 0; i < sizeof(part) / sizeof(*part); i++) {
            if (sys_line(device, part[i], id, sizeof(id))) {
                snprintf(out, out_bytes, "%s start %s", id, start);
                return true;
            }
        }
        return false;
    }
    for (size_t i = 0; i < sizeof(whole) / sizeof(*whole); i++) {
        if (sys_line(device, whole[i], out, out_bytes))
            return true;
    }
    return false;
}

static uint64_t device_identity(int fd, dev_t device)
{
    char text[320];
    uint64_t sum;

    if (!device_text(fd, device, text, sizeof(text)))
        return 0;
    sum = format_sum(0, text, strlen(text));
    return sum != 0 ? sum : 1;
}

/* ---- identity ---- */

/* The path as the system knows it, so that it stays right after a change of directory.  The end
 * of a long one says more than its beginning. */
static void name_image(const struct storage *image, char out[FORMAT_NAME_BYTES + 1])
{
    char link[40], path[4096];
    ssize_t len = -1;

    if (image->fd != -1) {
        snprintf(link, sizeof(link), "/proc/self/fd/%d", image->fd);
        len = readlink(link, path, sizeof(path) - 1);
    }
    if (len < 0)
        len = snprintf(path, sizeof(path), "%.4000s", image->name);
    path[len] = '\0';
    memset(out, 0, FORMAT_NAME_BYTES + 1);
    if (len <= (ssize_t)FORMAT_NAME_BYTES)
        memcpy(out, path, len);
    else
        snprintf(out, FORMAT_NAME_BYTES + 1, "...%s", path + len - (FORMAT_NAME_BYTES - 3));
}

static int mark_load(const struct storage *image, struct image_mark *mark);

int image_identify(struct storage *image, struct image_entry *out)
{
    struct image_mark *mark;
    struct statfs fs;
    struct stat st;

    memset(out, 0, sizeof(*out));
    out->size = image->size;
    name_image(image, out->name);
    if (image->fd == -1) {
        out->kind = IMAGE_REMOTE;
        return 0;
    }
    if (fstat(image->fd, &st) == -1 || fstatfs(image->fd, &fs) == -1) {
        int e = errno;

        report_error("can't identify image %s: %s", image->name, report_reason(e));
        return -e;
    }
    if (image->is_block) {
        out->kind = IMAGE_BLOCK;
        out->inode = st.st_rdev;
        out->fsid = device_identity(image->fd, st.st_rdev);
        return 0;
    }
    out->kind = IMAGE_FILE;
    out->inode = st.st_ino;
    memcpy(&out->fsid, &fs.f_fsid, sizeof(out->fsid));
    mark = malloc(sizeof(*mark));
    if (mark == NULL) {
        report_error("can't identify image %s: %s", image->name, report_reason(ENOMEM));
        return -ENOMEM;
    }
    if (mark_load(image, mark) == 0 && mark->present)
        memcpy(out->uuid, mark->image_uuid, sizeof(out->uuid));
    free(mark);
    return 0;
}

/* ---- the mark ---- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* 36 characters as format_uuid_text writes them, and a blank. */
static bool parse_uuid(const char **text, uint8_t out[FORMAT_UUID_BYTES])
{
    const char *p = *text;

    for (int i = 0; i < (int)FORMAT_UUID_BYTES; i++) {
        int high, low;

        if ((i == 4 || i == 6 || i == 8 || i == 10) && *p++ != '-')
            return false;
        high = hex_digit(p[0]);
        low = high < 0 ? -1 : hex_digit(p[1]);
        if (low < 0)
            return false;
        out[i] = high << 4 | low;
        p += 2;
    }
    if (*p++ != ' ')
        return false;
    *text = p;
    return true;
}

static bool parse_mark(const char *text, struct image_mark *mark)
{
    unsigned long epoch;
    char *end;

    if (!parse_uuid(&text, mark->journal_uuid) || !parse_uuid(&text, mark->image_uuid) ||
        *text < '0' || *text > '9')
        return false;
    errno = 0;
    epoch = strtoul(text, &end, 10);
    mark->is_opening = *end == '+';
    end += mark->is_opening;
    if (errno != 0 || epoch > UINT32_MAX || end[0] != ' ' || end[1] == '\0')
        return false;
    mark->epoch = epoch;
    snprintf(mark->journal_path, sizeof(mark->journal_path), "%s", end + 1);
    for (char *p = mark->journal_path; *p != '\0'; p++) {
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            *p = '?';
    }
    mark->present = true;
    return true;
}

/* 0, -EUCLEAN or -errno; reports nothing. */
static int mark_load(const struct storage *image, struct image_mark *mark)
{
    char text[4096];
    ssize_t len;

    memset(mark, 0, sizeof(*mark));
    if (image->fd == -1 || image->is_block)
        return 0;
    len = fgetxattr(image->fd, MARK_NAME, text, sizeof(text) - 1);
    if (len == -1 && errno == ERANGE)
        return -EUCLEAN;
    if (len == -1)
        return errno == ENODATA || errno == EOPNOTSUPP ? 0 : -errno;
    text[len] = '\0';
    if (strlen(text) == (size_t)len && parse_mark(text, mark))
        return 0;
    memset(mark, 0, sizeof(*mark));
    return -EUCLEAN;
}

int image_mark_read(struct storage *image, struct image_mark *mark)
{
    int e = mark_load(image, mark);

    if (e == -EUCLEAN)
        report_error("image %s bears a mark that can't be read (attribute " MARK_NAME
                     "): if no journal holds data for it, remove it (setfattr -x " MARK_NAME
                     " %s)",
                     image->name, image->name);
    else if (e < 0)
        report_error("can't read the mark of image %s (attribute " MARK_NAME "): %s",
                     image->name, report_reason(-e));
    return e;
}

/* Is there a mark, whatever it says?  Unlike its value, its name can be seen without permission
 * to read the file.  When in doubt: yes. */
static bool bears_mark(const struct storage *image)
{
    ssize_t len = flistxattr(image->fd, NULL, 0);
    char *names = len > 0 ? malloc(len) : NULL;
    bool found = len != 0;

    if (names != NULL && (len = flistxattr(image->fd, names, len)) >= 0) {
        found = false;
        for (const char *p = names; p < names + len && !found; p += strlen(p) + 1)
            found = strcmp(p, MARK_NAME) == 0;
    }
    free(names);
    return found;
}

/* This user may write the image, but not its attributes (the server changed its user after it
 * opened the image).  Without a mark we can go on; an old one that can't be replaced would say
 * the wrong thing for ever. */
static int mark_not_permitted(const struct storage *image, int e)
{
    if (bears_mark(image)) {
        report_error("can't renew the mark of image %s (attribute " MARK_NAME
                     "): %s; give the image to the user of the server",
                     image->name, strerror(e));
        return -e;
    }
    report_info("image %s can't be marked by this user (%s): nothing but its inode tells which "
                "journal it belongs to",
                image->name, strerror(e));
    return 0;
}

int image_mark_write(struct storage *image, const struct image_mark *mark, bool *supported)
{
    char text[MARK_PATH_MAX + 128], journal[37], uuid[37];
    const char *path = mark->journal_path, *cut = "";
    size_t path_len = strlen(path);
    int len, e;

    *supported = false;
    if (image->fd == -1 || image->is_block)
        return 0;
    format_uuid_text(mark->journal_uuid, journal);
    format_uuid_text(mark->image_uuid, uuid);
    if (path_len > MARK_PATH_MAX) {
        cut = "...";
        path += path_len - (MARK_PATH_MAX - 3);
    }
    len = snprintf(text, sizeof(text), "%s %s %" PRIu32 "%s %s%s", journal, uuid, mark->epoch,
                   mark->is_opening ? "+" : "", cut, path);
    if (fsetxattr(image->fd, MARK_NAME, text, len, 0) == -1) {
        e = errno;
        if (e == EOPNOTSUPP) {
            report_info("image %s: its file system has no user attributes, so it can't be "
                        "marked: nothing but its inode tells which journal it belongs to",
                        image->name);
            return 0;
        }
        if (e == EACCES || e == EPERM)
            return mark_not_permitted(image, e);
        report_error("can't mark image %s (attribute " MARK_NAME "): %s", image->name,
                     report_reason(e));
        return -e;
    }
    if (fsync(image->fd) == -1) { /* fdatasync may leave attributes out */
        e = errno;
        report_error("can't make the mark of image %s durable: %s", image->name,
                     report_reason(e));
        return -e;
    }
    *supported = true;
    return 0;
}

int image_mark_remove(struct storage *image)
{
    int e;

    if (image->fd == -1 || image->is_block)
        return 0;
    /* A server that may not mark the image may not remove either: no mark, nothing to say. */
    if (fgetxattr(image->fd, MARK_NAME, NULL, 0) == -1 && errno == ENODATA)
        return 0;
    if (fremovexattr(image->fd, MARK_NAME) == -1) {
        e = errno;
        if (e == ENODATA || e == EOPNOTSUPP)
            return 0;
    } else {
        e = fsync(image->fd) == -1 ? errno : 0;
    }
    if (e != 0)
        report_error("can't remove the mark of image %s (attribute " MARK_NAME "): %s",
                     image->name, report_reason(e));
    return -e;
}
