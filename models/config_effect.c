/* config_effect.c - settings that others leave without effect. In a file that is no mistake: a recipe may say what counts once
 * another loss or schedule is chosen. Typed on the command line it would be taken for one that had its effect. */
#include "models/config_internal.h"

#include <string.h>

typedef struct effect {
    const char *key; /* "energy.": the whole section */
    bool (*idle)(const sg_train_config *v);
    const char *beside; /* what leaves it without effect */
} effect;

static bool has_xml(const sg_train_config *v) { return v->data.labels_xml != NULL; }
static bool has_no_xml(const sg_train_config *v) { return !has_xml(v); }

static const effect reading[] = {
    {"data.labels", has_xml, "data.labels_xml"},
    {"data.close_hierarchy", has_no_xml, "no data.labels_xml"},
};

static bool has_files(const sg_train_config *v) { return v->data.files.count > 0; }
static bool has_train(const sg_train_config *v) { return !has_files(v); }
static bool has_validation(const sg_train_config *v) { return !has_files(v) && v->data.validation.count > 0; }
static bool has_split(const sg_train_config *v) { return has_files(v) && v->data.split; }

static const effect parts[] = {
    {"data.fractions", has_train, "data.train"},
    {"data.split", has_train, "data.train"},
    {"data.fractions", has_split, "data.split"},
    {"data.split_seed", has_split, "data.split"},
    {"data.dev_fraction", has_files, "data.files"},
    {"data.dev_fraction", has_validation, "data.validation"},
    {"data.split_seed", has_validation, "data.validation"},
};

static bool without_energy(const sg_train_config *v) { return v->loss.name == SG_LOSS_CROSS_ENTROPY; }
static bool without_plateau(const sg_train_config *v) { return v->train.schedule != SG_SCHEDULE_PLATEAU; }
static bool lists_seeds(const sg_train_config *v) { return v->seeds.count > 1; }

static const effect training[] = {
    {"energy.", without_energy, "loss.name cross-entropy"},
    {"loss.method", without_energy, "loss.name cross-entropy"},
    {"loss.samples", without_energy, "loss.name cross-entropy"},
    {"loss.energy_weight", without_energy, "loss.name cross-entropy"},
    {"loss.n_energy", without_energy, "loss.name cross-entropy"},
    {"train.energy_lr", without_energy, "loss.name cross-entropy"},
    {"train.energy_weight_decay", without_energy, "loss.name cross-entropy"},
    {"train.plateau_factor", without_plateau, "a train.schedule other than plateau"},
    {"train.plateau_patience", without_plateau, "a train.schedule other than plateau"},
    {"train.plateau_threshold", without_plateau, "a train.schedule other than plateau"},
    {"seed", lists_seeds, "a list of seeds"},
};

static bool is_about(const effect *e, const char *key)
{
    size_t n = strlen(e->key);
    return strncmp(e->key, key, n) == 0 && (e->key[n - 1] == '.' || !key[n]);
}

static bool is_typed(const sg_config *config, int32_t option)
{
    const sg_place *place = &config->places[option];
    return place->source && place->line == 0 && strncmp(place->source, "--", 2) == 0;
}

static sg_status check(const sg_config *config, const effect *table, size_t n, sg_error *err)
{
    for (int32_t i = 0; i < sg_option_count(); i++)
        for (size_t k = 0; k < n && is_typed(config, i); k++) {
            const char *key = sg_option_at(i)->key;
            if (is_about(&table[k], key) && table[k].idle(&config->values))
                return sg_config_fail(config, key, err, "%s has no effect with %s", key, table[k].beside);
        }
    return SG_OK;
}

sg_status sg_config_check_reading(const sg_config *config, sg_error *err)
{
    return check(config, reading, sizeof reading / sizeof *reading, err);
}

sg_status sg_config_check_format(const sg_config *config, sg_data_format format, sg_error *err)
{
    static const struct {
        const char *key;
        bool arff;
    } table[] = {{"data.labels", true},          {"data.positive", true},      {"data.arff_index_base", true},
                 {"data.nominal", true},         {"data.index_base", false},   {"data.label_base", false},
                 {"data.features_count", false}, {"data.labels_count", false}, {"data.keep_blank", false}};
    bool arff = format == SG_DATA_ARFF;
    for (size_t k = 0; k < sizeof table / sizeof *table; k++)
        if (table[k].arff != arff && is_typed(config, sg_option_index(sg_option_find(table[k].key))))
            return sg_config_fail(config, table[k].key, err, "%s has no effect on %s files", table[k].key,
                                  arff ? "ARFF" : "LIBSVM and XC");
    static const char *const bases[] = {"data.index_base", "data.label_base"};
    for (size_t k = 0; format == SG_DATA_XC && k < sizeof bases / sizeof *bases; k++)
        if (is_typed(config, sg_option_index(sg_option_find(bases[k]))))
            return sg_config_fail(config, bases[k], err, "%s has no effect on XC files, which count from 0", bases[k]);
    return SG_OK;
}

sg_status sg_config_check_parts(const sg_config *config, sg_error *err)
{
    return check(config, parts, sizeof parts / sizeof *parts, err);
}

sg_status sg_config_check_training(const sg_config *config, sg_error *err)
{
    return check(config, training, sizeof training / sizeof *training, err);
}
