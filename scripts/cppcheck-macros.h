/* Of the system's headers, which cppcheck does not read: what it can't guess (scripts/analyse). */
#define LIST_HEAD(name, type) struct name { struct type *lh_first; }
#define SLIST_HEAD(name, type) struct name { struct type *slh_first; }
#define STAILQ_HEAD(name, type) struct name { struct type *stqh_first, **stqh_last; }
#define TAILQ_HEAD(name, type) struct name { struct type *tqh_first, **tqh_last; }
#define RB_GENERATE_INTERNAL(name, type, field, compare, attribute)
#define NBDKIT_REGISTER_PLUGIN(plugin)
#define LIST_FOREACH(i, head, link) for ((i) = (head)->lh_first; (i); (i) = (i)->link.le_next)
#define SLIST_FOREACH(i, head, link) for ((i) = (head)->slh_first; (i); (i) = (i)->link.sle_next)
#define TAILQ_FOREACH(i, head, link) for ((i) = (head)->tqh_first; (i); (i) = (i)->link.tqe_next)
