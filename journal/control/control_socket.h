/* control_socket: the socket's file: made, replaced when its server is dead, removed. */
#ifndef JOURNAL_CONTROL_SOCKET_H
#define JOURNAL_CONTROL_SOCKET_H

#include <sys/stat.h>

struct control_socket {
    char *path;
    int fd; /* listens */
    dev_t device;
    ino_t inode; /* of the file that we made */
};

/* 0 or -errno, reported. */
int control_socket_open(struct control_socket *s, const char *path);
void control_socket_close(struct control_socket *s);

#endif
