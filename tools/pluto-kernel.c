/* A kernel that says yes: what pluto asks of the kernel's IPsec is agreed to, and does nothing.
 *
 * pluto finishes no negotiation without IPsec in the kernel. `tools/peers` builds this for it, and
 * the loader puts it before libc. It stands for NETLINK_XFRM alone: each request on such a socket
 * gets the answer of success, a requested SPI is random, and a question about an SA gets zeros.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/netlink.h>
#include <linux/xfrm.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define OUR_SOCKETS 1024

/* The other end of each socket, by the number of the one that pluto has; 0: not ours. */
static int others[OUR_SOCKETS];

static int is_ours(int fd)
{
    return fd >= 0 && fd < OUR_SOCKETS && others[fd] != 0;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int socket(int domain, int type, int protocol)
{
    int ends[2];
    if (domain != AF_NETLINK || protocol != NETLINK_XFRM)
        return REAL(socket)(domain, type, protocol);
    if (socketpair(AF_UNIX, SOCK_DGRAM | (type & (SOCK_NONBLOCK | SOCK_CLOEXEC)), 0, ends) != 0)
        return -1;
    if (ends[0] >= OUR_SOCKETS) {
        errno = EMFILE;
        return -1;
    }
    others[ends[0]] = ends[1];
    return ends[0];
}

int bind(int fd, const struct sockaddr *address, socklen_t size)
{
    return is_ours(fd) ? 0 : REAL(bind)(fd, address, size);
}

int setsockopt(int fd, int level, int option, const void *value, socklen_t size)
{
    return is_ours(fd) ? 0 : REAL(setsockopt)(fd, level, option, value, size);
}

int close(int fd)
{
    if (is_ours(fd)) {
        REAL(close)(others[fd]);
        others[fd] = 0;
    }
    return REAL(close)(fd);
}

/* The answer to a request for an SPI between two values. */
static size_t allocated(const struct nlmsghdr *request, struct nlmsghdr *answer)
{
    const struct xfrm_userspi_info *wanted = NLMSG_DATA(request);
    struct xfrm_usersa_info *sa = NLMSG_DATA(answer);
    unsigned int span = wanted->max - wanted->min, random = 0;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        abort();
    *sa = wanted->info;
    sa->id.spi = htobe32(wanted->min + (span == 0 ? 0 : random % span));
    answer->nlmsg_type = XFRM_MSG_NEWSA;
    return sizeof *sa;
}

static void answer(int fd, const struct nlmsghdr *request)
{
    union {
        struct nlmsghdr header;
        char octets[NLMSG_SPACE(sizeof(struct xfrm_usersa_info)) + 64];
    } out;
    struct nlmsgerr *error = NLMSG_DATA(&out.header);
    size_t size = sizeof *error;
    memset(&out, 0, sizeof out);
    out.header.nlmsg_seq = request->nlmsg_seq;
    out.header.nlmsg_type = NLMSG_ERROR;
    error->msg = *request;
    if (request->nlmsg_type == XFRM_MSG_ALLOCSPI) {
        size = allocated(request, &out.header);
    } else if (request->nlmsg_type == XFRM_MSG_GETSA) {
        out.header.nlmsg_type = XFRM_MSG_NEWSA;
        memset(error, 0, sizeof *error);
        size = sizeof(struct xfrm_usersa_info);
    }
    out.header.nlmsg_len = NLMSG_LENGTH(size);
    if (REAL(write)(others[fd], &out, out.header.nlmsg_len) < 0)
        abort();
}

ssize_t write(int fd, const void *octets, size_t size)
{
    if (!is_ours(fd))
        return REAL(write)(fd, octets, size);
    answer(fd, octets);
    return size;
}

/* The kernel's address is all zeros. */
static void name_kernel(struct sockaddr *address, socklen_t *size)
{
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    if (address == NULL)
        return;
    memcpy(address, &kernel, *size < sizeof kernel ? *size : sizeof kernel);
    *size = sizeof kernel;
}

ssize_t recvfrom(int fd, void *octets, size_t size, int flags, struct sockaddr *from,
                 socklen_t *from_size)
{
    if (!is_ours(fd))
        return REAL(recvfrom)(fd, octets, size, flags, from, from_size);
    ssize_t got = recv(fd, octets, size, flags);
    if (got >= 0)
        name_kernel(from, from_size);
    return got;
}

/* What the C library's checks call in its place. */
ssize_t __recvfrom_chk(int fd, void *octets, size_t size, size_t room, int flags,
                       struct sockaddr *from, socklen_t *from_size)
{
    if (size > room)
        abort();
    return recvfrom(fd, octets, size, flags, from, from_size);
}
