/* config_test.c - the configuration: typing by schema, every kind of mistake with its exact place, precedence and origins. */
#include "models/config_internal.h"
#include "models/models.h"

#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];

static const char *path_of(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const char *text)
{
    FILE *file = fopen(path_of(name), "wb");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static sg_status parse(const char *text, sg_config **config, sg_error *err)
{
    memset(err, 0, sizeof *err);
    return sg_config_parse(config, text, strlen(text), "c.yml", err);
}

static sg_config *parse_ok(const char *text)
{
    sg_config *config;
    sg_error err;
    if (parse(text, &config, &err) != SG_OK)
        fail_msg("%s", err.text);
    return config;
}

static sg_config *load(const char *file, const sg_setting *sets, int n_sets, const sg_setting *flags, int n_flags)
{
    sg_config *config;
    sg_error err;
    sg_config_request request = {
        .file = file, .sets = sets, .n_sets = n_sets, .flags = flags, .n_flags = n_flags, .environment = true};
    if (sg_config_load(&config, &request, &err) != SG_OK)
        fail_msg("%s", err.text);
    return config;
}

static void refuses(const char *text, int line, int column, const char *message)
{
    sg_config *config;
    sg_error err;
    assert_int_equal(parse(text, &config, &err), SG_E_CONFIG);
    assert_null(config);
    if (err.line != line || err.column != column || !strstr(err.text, message))
        fail_msg("got %lld:%lld: %s", (long long)err.line, (long long)err.column, err.text);
    assert_string_equal(err.file, "c.yml");
}

static void types_follow_the_schema(void **state)
{
    (void)state;
    sg_config *config = parse_ok("train: {lr: 1e-5, epochs: 012, batch: 7}\n"
                                 "data: {dir: no, train: [1.arff, \"a b\"], positive: yes, keep_blank: true}\n"
                                 "model: {hidden: [8, 9, 10], dropout: 0.25}\n"
                                 "loss: {name: seal-dynamic, energy_weight: 0}\n");
    const sg_train_config *v = sg_config_values(config);
    assert_true(v->train.lr == 1e-5);
    assert_int_equal(v->train.epochs, 12);
    assert_string_equal(v->data.dir, "no");
    assert_int_equal(v->data.train.count, 2);
    assert_string_equal(v->data.train.at[1], "a b");
    assert_string_equal(v->data.positive, "yes");
    assert_true(v->data.keep_blank && !v->data.close_hierarchy);
    assert_int_equal(v->loss.name, SG_LOSS_SEAL_DYNAMIC);
    assert_int_equal(v->model.dropout.count, 3);
    assert_true(v->model.dropout.at[1] == 0.25 && v->model.dropout.at[2] == 0);
    assert_int_equal(v->energy.hidden.at[2], 10);
    assert_true(v->energy.dropout.at[0] == 0.25);
    sg_config_free(config);
}

static void json_is_accepted(void **state)
{
    (void)state;
    sg_config *config = parse_ok("{\"train\": {\"lr\": 0.5, \"metric\": \"micro_f1\"}, \"model\": {\"hidden\": [3]}}");
    assert_true(sg_config_values(config)->train.lr == 0.5);
    assert_string_equal(sg_config_values(config)->train.metric, "micro_f1");
    assert_string_equal(sg_config_origin(config, "train.lr"), "c.yml:1:18");
    sg_config_free(config);
}

static void unknown_keys_name_the_nearest(void **state)
{
    (void)state;
    refuses("seed: 1\ntrian:\n  lr: 1\n", 2, 1, "unknown key 'trian' (did you mean 'train'?)");
    refuses("train:\n  epoch: 1\n", 2, 3, "unknown key 'train.epoch' (did you mean 'train.epochs'?)");
    refuses("model:\n  lr: 1\n", 2, 3, "did you mean 'train.lr'?");
    refuses("completely_else: 1\n", 1, 1, "unknown key 'completely_else'");
}

static void wrong_types_are_placed(void **state)
{
    (void)state;
    refuses("train:\n  lr: fast\n", 2, 7, "train.lr expects a finite number, not 'fast'");
    refuses("train:\n  lr: \"0.1\"\n", 2, 7, "quoted text");
    refuses("train:\n  lr: 0x10\n", 2, 7, "finite number");
    refuses("train:\n  lr: [0.1]\n", 2, 7, "expects one value, not a list");
    refuses("train:\n  lr: {a: 1}\n", 2, 7, "not a section");
    refuses("train:\n  lr:\n", 2, 6, "not nothing");
    refuses("train:\n  epochs: 1.5\n", 2, 11, "a whole number");
    refuses("train:\n  epochs: 3:20\n", 2, 11, "a whole number");
    refuses("train: 3\n", 1, 1, "train is a section");
    refuses("data: {keep_blank: yes}\n", 1, 20, "true or false, not 'yes'");
    refuses("data: {keep_blank: \"true\"}\n", 1, 20, "true or false");
    refuses("device: cuda:N\n", 1, 9, "cpu, reference, cuda or cuda:N, not 'cuda:N'");
    refuses("device: cuda:1x\n", 1, 9, "not 'cuda:1x'");
    refuses("device: cpu:1\n", 1, 9, "not 'cpu:1'");
    refuses("loss: {name: sael-dynamic}\n", 1, 14, "cross-entropy or seal-dynamic");
    refuses("model:\n  hidden: [400, [2]]\n", 2, 17, "flat list");
    refuses("model:\n  hidden:\n    - 4\n    - x\n", 4, 7, "model.hidden expects a whole number, not 'x'");
}

static void ranges_are_checked(void **state)
{
    (void)state;
    refuses("train:\n  lr: -0.1\n", 2, 7, "train.lr must be in (0, inf), not -0.1");
    refuses("train:\n  lr: 0\n", 2, 7, "must be in (0, inf)");
    refuses("train:\n  lr: 1e999\n", 2, 7, "must be in");
    refuses("train:\n  lr: .nan\n", 2, 7, "finite number");
    refuses("train:\n  lr: nan\n", 2, 7, "finite number");
    refuses("seed: 99999999999999999999\n", 1, 7, "seed must be in [0, inf)");
    refuses("model: {dropout: [0.5, 1]}\n", 1, 24, "model.dropout must be in [0, 1)");
    refuses("model: {hidden: []}\n", 1, 17, "at least one layer");
    refuses("model: {hidden: [4, 4], dropout: [0, 0, 0]}\n", 1, 34, "3 rates for 2 layers");
    refuses("data: {fractions: [0.5, 0.2, 0.2]}\n", 1, 19, "sum to 1");
    refuses("data: {files: a, train: b}\n", 1, 25, "exclude each other");
    refuses("energy: {hidden: [4]}\n", 1, 18, "energy.dropout must be given");
}

static void devices(void **state)
{
    (void)state;
    static const char *const names[] = {"cpu", "reference", "cuda", "cuda:0", "cuda:12"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char text[40];
        snprintf(text, sizeof text, "device: %s\n", names[i]);
        sg_config *config = parse_ok(text);
        assert_string_equal(sg_config_backend(sg_config_values(config)), names[i]);
        assert_int_equal(sg_config_real(sg_config_values(config)), i == 1 ? SG_F64 : SG_F32);
        sg_config_free(config);
    }
}

static void yaml_extras_are_refused(void **state)
{
    (void)state;
    refuses("seed: 1\nthreads: 2\nseed: 2\n", 3, 1, "duplicate key 'seed' (first on line 1)");
    refuses("train: {lr: 1}\ntrain: {batch: 1}\n", 2, 1, "duplicate key 'train'");
    refuses("seed: &a 1\n", 1, 7, "anchors");
    refuses("seed: 1\nthreads: *a\n", 2, 10, "anchors");
    refuses("seed: !!int 1\n", 1, 7, "tags");
    refuses("- 1\n", 1, 1, "mapping");
    refuses("seed: 1\n---\nseed: 2\n", 2, 1, "one document");
    refuses("seed: [1\n", 2, 1, "not valid YAML");
    refuses("data: {split: a.tsv\n", 2, 1, "not valid YAML");
}

static void environment_only_in_paths(void **state)
{
    (void)state;
    setenv("SG_TEST_ROOT", "/srv", 1);
    sg_config *config = parse_ok("data: {dir: \"${SG_TEST_ROOT}/mlc\", positive: \"${SG_TEST_ROOT}\"}");
    assert_string_equal(sg_config_values(config)->data.dir, "/srv/mlc");
    assert_string_equal(sg_config_values(config)->data.positive, "${SG_TEST_ROOT}");
    sg_config_free(config);
    refuses("data:\n  dir: ${SG_TEST_ABSENT}/x\n", 2, 8, "SG_TEST_ABSENT is not set");
    unsetenv("SG_TEST_ROOT");
}

static void later_sources_win(void **state)
{
    (void)state;
    write_file("base.yml", "seed: 2\nthreads: 2\ntrain: {lr: 0.2, batch: 2, epochs: 2, patience: 2}\n");
    write_file("file.yml", "train: {lr: 0.3, batch: 3, epochs: 3}\nextends: base.yml\n");
    setenv("SEALGRAPH_TRAIN_BATCH", "4", 1);
    setenv("SEALGRAPH_TRAIN_EPOCHS", "4", 1);
    setenv("SEALGRAPH_THREADS", "4", 1);
    const sg_setting sets[] = {
        {"--set", "train.epochs", "1"}, {"--set", "train.epochs", "5"}, {"--set", "threads", "5"}};
    const sg_setting flags[] = {{"--threads", "threads", "6"}};
    sg_config *config = load(path_of("file.yml"), sets, 3, flags, 1);
    const sg_train_config *v = sg_config_values(config);
    assert_int_equal(v->seed, 2);
    assert_int_equal(v->train.patience, 2);
    assert_true(v->train.lr == 0.3);
    assert_int_equal(v->train.batch, 4);
    assert_int_equal(v->train.epochs, 5);
    assert_int_equal(v->threads, 6);
    assert_string_equal(sg_config_origin(config, "train.clip"), "default");
    assert_non_null(strstr(sg_config_origin(config, "seed"), "base.yml:1:7"));
    assert_non_null(strstr(sg_config_origin(config, "train.lr"), "file.yml:1:13"));
    assert_string_equal(sg_config_origin(config, "train.batch"), "SEALGRAPH_TRAIN_BATCH");
    assert_string_equal(sg_config_origin(config, "train.epochs"), "--set");
    assert_string_equal(sg_config_origin(config, "threads"), "--threads");
    sg_config_free(config);
    unsetenv("SEALGRAPH_TRAIN_BATCH");
    unsetenv("SEALGRAPH_TRAIN_EPOCHS");
    unsetenv("SEALGRAPH_THREADS");
}

static void file_fails(const char *name, sg_status status, const char *message)
{
    sg_config *config;
    sg_error err;
    char text[1024];
    sg_config_request request = {.file = name, .environment = true};
    assert_int_equal(sg_config_load(&config, &request, &err), status);
    if (!strstr(sg_error_format(&err, text, sizeof text), message))
        fail_msg("got: %s", text);
}

static void file_refuses(const char *name, const char *message) { file_fails(name, SG_E_CONFIG, message); }

static void extends_is_checked(void **state)
{
    (void)state;
    write_file("one.yml", "extends: two.yml\n");
    write_file("two.yml", "seed: 1\nextends: ./one.yml\n");
    file_refuses(path_of("one.yml"), "two.yml:2:10: extends goes in a circle");
    write_file("self.yml", "extends: self.yml\n");
    file_refuses(path_of("self.yml"), "self.yml:1:10: extends goes in a circle");
    write_file("lost.yml", "extends: nowhere.yml\n");
    file_fails(path_of("lost.yml"), SG_E_IO, "lost.yml:1:10: cannot open");
    file_fails(path_of("absent.yml"), SG_E_IO, "cannot open the configuration");
    write_file("bad.yml", "seed: x\n");
    write_file("child.yml", "extends: bad.yml\n");
    file_refuses(path_of("child.yml"), "bad.yml:1:7: seed expects a whole number");
    static const char *const no_file[] = {"\"-\"", "[one.yml]", "\"\"", "null"};
    for (int i = 0; i < 4; i++) {
        char text[40];
        snprintf(text, sizeof text, "extends: %s\n", no_file[i]);
        write_file("child.yml", text);
        file_refuses(path_of("child.yml"), "child.yml:1:10: extends expects the name of one file");
    }
}

/* A file that is nowhere else is looked up among the recipes, those that it extends too. */
static void recipes_are_found(void **state)
{
    (void)state;
    char recipes[256];
    sg_error err;
    sg_config *config;
    snprintf(recipes, sizeof recipes, "%s", path_of("recipes"));
    assert_int_equal(mkdir(recipes, 0700), 0);
    write_file("recipes/known.yml", "seed: 5\n");
    write_file("recipes/other.yml", "extends: known.yml\nthreads: 2\n");
    write_file("mine.yml", "extends: other.yml\nthreads: 3\n");
    const char *const files[] = {"known.yml", "other.yml", path_of("mine.yml")};
    for (int i = 0; i < 3; i++) {
        sg_config_request request = {.file = files[i], .recipes = recipes};
        assert_int_equal(sg_config_load(&config, &request, &err), SG_OK);
        assert_int_equal(sg_config_values(config)->seed, 5);
        assert_int_equal(sg_config_values(config)->threads, i ? i + 1 : 0);
        assert_non_null(strstr(sg_config_origin(config, "seed"), "recipes/known.yml:1:7"));
        sg_config_free(config);
    }
    write_file("other.yml", "seed: 6\n"); /* beside mine.yml, so it is meant */
    sg_config_request request = {.file = path_of("mine.yml"), .recipes = recipes};
    assert_int_equal(sg_config_load(&config, &request, &err), SG_OK);
    assert_int_equal(sg_config_values(config)->seed, 6);
    sg_config_free(config);
    /* Of those with a step up the files are there, seen from the recipes, but not from here. */
    const char *const absent[] = {"absent.yml", "", "../mine.yml", "../recipes/known.yml", "x/../known.yml"};
    assert_int_equal(mkdir(path_of("recipes/x"), 0700), 0);
    for (int i = 0; i < 5; i++) {
        request = (sg_config_request){.file = absent[i], .recipes = recipes};
        assert_int_equal(sg_config_load(&config, &request, &err), SG_E_IO);
        assert_non_null(strstr(err.text, ": No such file or directory; the program's recipes are in /tmp/"));
    }
}

static void settings_name_themselves(void **state)
{
    (void)state;
    sg_config *config;
    sg_error err;
    const sg_setting wrong = {"--set", "trian.lr", "1e-2"};
    sg_config_request request = {.sets = &wrong, .n_sets = 1};
    assert_int_equal(sg_config_load(&config, &request, &err), SG_E_CONFIG);
    assert_string_equal(err.text, "--set: unknown key 'trian.lr' (did you mean 'train.lr'?)");
    setenv("SEALGRAPH_TRAIN_LR", "-1", 1);
    request = (sg_config_request){.environment = true};
    assert_int_equal(sg_config_load(&config, &request, &err), SG_E_CONFIG);
    assert_string_equal(err.text, "SEALGRAPH_TRAIN_LR: train.lr must be in (0, inf), not -1");
    unsetenv("SEALGRAPH_TRAIN_LR");
    setenv("SEALGRAPH_TRIAN_LR", "1", 1);
    assert_int_equal(sg_config_load(&config, &request, &err), SG_E_CONFIG);
    assert_string_equal(err.text, "SEALGRAPH_TRIAN_LR: unknown variable (did you mean SEALGRAPH_TRAIN_LR?)");
    unsetenv("SEALGRAPH_TRIAN_LR");
}

static void lists_on_the_command_line(void **state)
{
    (void)state;
    const sg_setting sets[] = {{"--set", "model.hidden", "[16, 8]"},
                               {"--set", "model.dropout", "0.5,0.25"},
                               {"--train", "data.train", "a.arff, b.arff"},
                               {"--set", "data.test", "[]"}};
    sg_config *config = load(NULL, sets, 4, NULL, 0);
    const sg_train_config *v = sg_config_values(config);
    assert_int_equal(v->model.hidden.count, 2);
    assert_int_equal(v->model.hidden.at[1], 8);
    assert_true(v->model.dropout.at[1] == 0.25);
    assert_int_equal(v->data.train.count, 2);
    assert_string_equal(v->data.train.at[1], "b.arff");
    assert_int_equal(v->data.test.count, 0);
    sg_config_free(config);
}

static void written_yaml_reads_back(void **state)
{
    (void)state;
    sg_config *config = parse_ok("train: {lr: 4.512859464505083e-05, threshold: 0.1}\nmodel: {hidden: [3, 4]}\n"
                                 "data: {dir: \"a \\\"b\\\"\\n\\\\\", test: [\"1\", \"null\", \"\", x y]}\n");
    char *first = sg_config_yaml(config);
    assert_non_null(first);
    sg_config *again = parse_ok(first);
    char *second = sg_config_yaml(again);
    assert_string_equal(first, second);
    assert_non_null(strstr(first, " lr: 4.512859464505083e-05\n"));
    assert_non_null(strstr(first, " weight_decay: 1.0e-05\n")); /* a number to readers of YAML 1.1 too */
    assert_true(sg_config_values(again)->train.lr == 4.512859464505083e-05);
    assert_string_equal(sg_config_values(again)->data.dir, "a \"b\"\n\\");
    assert_int_equal(sg_config_values(again)->data.test.count, 4);
    assert_string_equal(sg_config_values(again)->data.test.at[2], "");
    sg_free(first);
    sg_free(second);
    sg_config_free(config);
    sg_config_free(again);
}

/* Characters that YAML's readers fold, or refuse, as they stand are escaped; what is not Unicode is refused when it is set, not
 * when the model that holds the recipe is opened. */
static void names_of_files_survive(void **state)
{
    (void)state;
    static const char *const names[] = {"tab\t",        "\x7f",         "\xc2\x85",     "\xc2\x9f",
                                        "\xe2\x80\xa8", "\xef\xbb\xbf", "\xef\xbf\xbe", "\xc3\xa9 \xf0\x9f\x98\x80"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const sg_setting set = {"--set", "data.dir", names[i]};
        sg_config *config = load(NULL, &set, 1, NULL, 0);
        char *yaml = sg_config_yaml(config);
        sg_config *again = parse_ok(yaml);
        assert_string_equal(sg_config_values(again)->data.dir, names[i]);
        sg_free(yaml);
        sg_config_free(config);
        sg_config_free(again);
    }
    sg_config *config;
    sg_error err;
    const sg_setting latin = {"--train", "data.train", "caf\xe9.arff"};
    sg_config_request request = {.sets = &latin, .n_sets = 1};
    assert_int_equal(sg_config_load(&config, &request, &err), SG_E_CONFIG);
    assert_non_null(strstr(err.text, "--train: data.train is not UTF-8"));
}

static void every_default_is_valid_and_documented(void **state)
{
    (void)state;
    char name[128], other[128];
    sg_config *config = load(NULL, NULL, 0, NULL, 0);
    for (int32_t i = 0; i < sg_option_count(); i++) {
        const sg_option *option = sg_option_at(i);
        assert_true(strlen(option->help) > 5);
        assert_ptr_equal(sg_option_find(option->key), option);
        assert_string_equal(sg_config_origin(config, option->key), "default");
        sg_option_environment(option, name, sizeof name);
        for (int32_t j = 0; j < i; j++) {
            assert_string_not_equal(name, sg_option_environment(sg_option_at(j), other, sizeof other));
            assert_true(!option->flag[0] || strcmp(option->flag, sg_option_at(j)->flag) != 0);
        }
    }
    sg_config_free(config);
}

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/sealgraph-config-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    static const char *const names[] = {"base.yml", "file.yml",          "one.yml",           "two.yml",
                                        "self.yml", "lost.yml",          "bad.yml",           "child.yml",
                                        "mine.yml", "recipes/known.yml", "recipes/other.yml", "other.yml"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unlink(path_of(names[i]));
    rmdir(path_of("recipes/x"));
    rmdir(path_of("recipes"));
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_follow_the_schema),
        cmocka_unit_test(json_is_accepted),
        cmocka_unit_test(unknown_keys_name_the_nearest),
        cmocka_unit_test(wrong_types_are_placed),
        cmocka_unit_test(ranges_are_checked),
        cmocka_unit_test(devices),
        cmocka_unit_test(yaml_extras_are_refused),
        cmocka_unit_test(environment_only_in_paths),
        cmocka_unit_test(later_sources_win),
        cmocka_unit_test(extends_is_checked),
        cmocka_unit_test(recipes_are_found),
        cmocka_unit_test(settings_name_themselves),
        cmocka_unit_test(lists_on_the_command_line),
        cmocka_unit_test(written_yaml_reads_back),
        cmocka_unit_test(names_of_files_survive),
        cmocka_unit_test(every_default_is_valid_and_documented),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
