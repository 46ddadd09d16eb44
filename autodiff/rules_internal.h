/* rules_internal.h - applying the derivative rules of one node, and the sweeps they recurse into. */
#ifndef SG_RULES_INTERNAL_H
#define SG_RULES_INTERNAL_H

#include "graph/graph.h"

/* A loop is the one stop that must not be passed over in silence. */
bool sg_is_loop(const sg_node *node);

/* A node and its operands as values, copied so that they survive building; `gout`, `gin` hold cotangents (or tangents)
 * of outputs and inputs. Buffers are reused from node to node. */
typedef struct sg_rule_site {
    sg_node node;
    sg_value *in, *out, *gin, *gout;
    bool *need;
    int32_t capacity;
} sg_rule_site;

/* Fill the site with a node of the graph: gin and gout SG_NONE, need false; builders are set to the node's place.
 * Sticky error and false if out of memory. */
bool sg_site_load(sg_rule_site *site, sg_graph *graph, int32_t node_index);
void sg_site_free(sg_rule_site *site);

/* Reverse rule of the site's node: gin[k] for need[k] from gout, by the op's vjp or through its decomposition. gin[k]
 * may still have the output's broadcast shape. A missing rule is the sticky error SG_E_UNSUPPORTED. */
void sg_site_vjp(const sg_rule_site *site, sg_graph *graph);
/* Forward rule: gout[j] from gin (SG_NONE: not moving). wanted outputs are all real ones. */
void sg_site_jvp(const sg_rule_site *site, sg_graph *graph);

/* Undo broadcasting: sum a cotangent to the shape of `input`; its transpose: broadcast a tangent to `output`. */
sg_value sg_fit_cotangent(sg_value g, sg_value input);
sg_value sg_fit_tangent(sg_value t, sg_value output);

/* The sweeps behind sg_vjp and sg_jvp, without checks of their arguments; SG_NONE stands for not connected. With
 * `leaves` the x are independent variables even if one was computed from another: the derivative of an expression in
 * its own arguments. Without it, the total derivative. A direction dx that is SG_NONE does not move. All values belong
 * to one graph. */
void sg_sweep_reverse(const sg_value *y, const sg_value *seed, int32_t n_y, const sg_value *x, int32_t n_x,
                      sg_value *grad, bool leaves);
void sg_sweep_forward(const sg_value *y, int32_t n_y, const sg_value *x, const sg_value *dx, int32_t n_x, sg_value *dy,
                      bool leaves);

#endif
