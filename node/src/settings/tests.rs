use super::*;
use std::fs;
use std::path::Path;

fn env(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    pairs.iter().map(|(k, v)| (k.into(), v.into())).collect()
}

fn source(config: &Config, key: &str) -> SettingSource {
    config.report().into_iter().find(|row| row.key == key).unwrap().source
}

#[test]
fn each_layer_wins_over_those_below() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("my.toml");
    fs::write(&file, "threads = 2\nmax_orders = 20\nlisten = [\"/ip4/1.2.3.4/tcp/1\"]\nrun = \"sums\"\n")
        .unwrap();
    let flags = Flags { config: Some(file.clone()), threads: Some(4), ..Flags::default() };
    let variables = env(&[("ECHO_NODE_THREADS", "3"), ("ECHO_NODE_MAX_ORDERS", "30"), ("HOME", "/x")]);
    let config = Config::load(&flags, variables).unwrap();

    let s = &config.settings;
    assert_eq!((s.threads, s.max_orders, s.run.as_deref(), s.relays()), (4, 30, Some("sums"), true));
    assert_eq!(s.listen, ["/ip4/1.2.3.4/tcp/1"]);
    assert_eq!(source(&config, "threads"), SettingSource::Flag("--threads".into()));
    assert_eq!(source(&config, "max_orders"), SettingSource::Env("ECHO_NODE_MAX_ORDERS".into()));
    assert_eq!(source(&config, "run"), SettingSource::File(file));
    assert_eq!(source(&config, "roles"), SettingSource::Default);
    assert_eq!(source(&config, "peers"), SettingSource::Default);
}

#[test]
fn the_file_in_the_data_directory_is_found_and_may_be_missing() {
    let dir = tempfile::tempdir().unwrap();
    let flags = Flags { data_dir: Some(dir.path().to_owned()), ..Flags::default() };
    assert_eq!(Config::load(&flags, env(&[])).unwrap().settings.status_every_s, 5);
    fs::write(dir.path().join(FILE_NAME), "status_every_s = 9").unwrap();
    let by_env = env(&[("ECHO_NODE_DATA_DIR", &dir.path().to_string_lossy())]);
    for config in [Config::load(&flags, env(&[])), Config::load(&Flags::default(), by_env)] {
        assert_eq!(config.unwrap().settings.status_every_s, 9);
    }
}

#[test]
fn a_file_that_was_named_must_exist() {
    for (flags, variables) in [
        (Flags { config: Some("/nowhere/node.toml".into()), ..Flags::default() }, env(&[])),
        (Flags::default(), env(&[("ECHO_NODE_CONFIG", "/nowhere/node.toml")])),
    ] {
        assert!(matches!(Config::load(&flags, variables), Err(SettingsError::File { .. })));
    }
}

#[test]
fn unknown_settings_are_named_with_the_nearest_one() {
    let dir = tempfile::tempdir().unwrap();
    let flags = Flags { data_dir: Some(dir.path().to_owned()), ..Flags::default() };
    let file = dir.path().join(FILE_NAME);
    fs::write(&file, "max_order = 3").unwrap();
    let text = Config::load(&flags, env(&[])).unwrap_err().to_string();
    assert!(text.contains("\"max_order\"") && text.contains("did you mean \"max_orders\"?"), "{text}");
    assert!(text.contains(FILE_NAME), "{text}");

    fs::write(&file, "").unwrap();
    let text = Config::load(&flags, env(&[("ECHO_NODE_COLOUR", "red")])).unwrap_err().to_string();
    assert!(text.contains("\"colour\"") && text.contains("max_orders, "), "{text}");
}

#[test]
fn wrong_types_say_which_setting_and_where() {
    let dir = tempfile::tempdir().unwrap();
    let flags = Flags { data_dir: Some(dir.path().to_owned()), ..Flags::default() };
    let text = Config::load(&flags, env(&[("ECHO_NODE_THREADS", "many")])).unwrap_err().to_string();
    assert!(text.contains("ECHO_NODE_THREADS=\"many\"") && text.contains("whole number"), "{text}");
    fs::write(dir.path().join(FILE_NAME), "roles = [\"baker\"]").unwrap();
    let text = Config::load(&flags, env(&[])).unwrap_err().to_string();
    assert!(text.contains("\"roles.0\"") && text.contains(FILE_NAME), "{text}");
}

#[test]
fn texts_of_the_environment_stay_texts_and_lists_are_split() {
    let variables =
        env(&[("ECHO_NODE_RUN", "7"), ("ECHO_NODE_LISTEN", "/ip4/1.1.1.1/tcp/1, /ip4/1.1.1.1/tcp/2")]);
    let settings = Config::load(&Flags::default(), variables).unwrap().settings;
    assert_eq!(settings.run.as_deref(), Some("7"));
    assert_eq!(settings.listen, ["/ip4/1.1.1.1/tcp/1", "/ip4/1.1.1.1/tcp/2"]);
}

#[test]
fn the_table_is_aligned_and_complete() {
    let config = Config::load(&Flags { threads: Some(1), ..Flags::default() }, env(&[])).unwrap();
    let table = config.table();
    assert_eq!(table.lines().count(), Settings::keys().count());
    let threads = table.lines().find(|line| line.starts_with("threads ")).unwrap();
    assert!(threads.ends_with("flag --threads"), "{threads}");
    let columns: Vec<_> = table.lines().map(|line| line.find("default").or(line.find("flag --"))).collect();
    assert!(columns.windows(2).all(|pair| pair[0] == pair[1]), "{table}");
}

#[test]
fn roles_rates_and_precisions_are_read_from_every_layer() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(
        dir.path().join(FILE_NAME),
        "roles = [\"rollout\"]\nmax_upload = \"40mbit\"\nmax_download = 1000\n",
    )
    .unwrap();
    let flags = Flags { data_dir: Some(dir.path().to_owned()), ..Flags::default() };
    let s = Config::load(&flags, env(&[])).unwrap().settings;
    assert_eq!((s.generates(), s.relays()), (true, false));
    assert_eq!((s.max_upload, s.max_download), (Some(BytesPerSec(5_000_000)), Some(BytesPerSec(1000))));

    let variables = env(&[("ECHO_NODE_ROLES", "relay"), ("ECHO_NODE_MAX_UPLOAD", "2000")]);
    let s = Config::load(&flags, variables.clone()).unwrap().settings;
    assert_eq!((s.generates(), s.relays(), s.max_upload), (false, true, Some(BytesPerSec(2000))));

    let flags = Flags { roles: Some(vec![Role::Rollout]), max_upload: Some(BytesPerSec(3000)), ..flags };
    let config = Config::load(&flags, variables).unwrap();
    assert_eq!((config.settings.relays(), config.settings.max_upload), (false, Some(BytesPerSec(3000))));
    assert_eq!(source(&config, "roles"), SettingSource::Flag("--role".into()));

    let verifier = env(&[("ECHO_NODE_ROLES", "verifier, relay")]);
    let s = Config::load(&Flags::default(), verifier).unwrap().settings;
    assert_eq!((s.generates(), s.relays(), s.verifies()), (false, true, true));
    assert!(!Settings::default().verifies(), "only who says so");

    let s = Config::load(&Flags::default(), env(&[("ECHO_NODE_PRECISION", "int8")])).unwrap().settings;
    assert_eq!((s.precision, Settings::default().precision), (Some(Precision::Int8), None));
    let text =
        Config::load(&Flags::default(), env(&[("ECHO_NODE_PRECISION", "fp8")])).unwrap_err().to_string();
    assert!(text.contains("fp8") && text.contains("int4"), "{text}");

    let text =
        Config::load(&Flags::default(), env(&[("ECHO_NODE_MAX_UPLOAD", "fast")])).unwrap_err().to_string();
    assert!(text.contains("\"ECHO_NODE_MAX_UPLOAD\" in environment") && text.contains("40mbit"), "{text}");
}

#[test]
fn messages_that_a_silent_peer_does_not_take_are_not_logged() {
    let subscriber = tracing_subscriber::fmt().with_env_filter(LOG).with_writer(std::io::sink).finish();
    tracing::subscriber::with_default(subscriber, || {
        assert!(!tracing::enabled!(target: "libp2p_gossipsub::behaviour", tracing::Level::WARN));
        assert!(tracing::enabled!(target: "libp2p_swarm", tracing::Level::WARN));
    });
}

#[test]
fn a_level_that_is_none_is_refused_instead_of_switching_the_log_off() {
    let filter = |log: &str| Settings { log: log.to_owned(), ..Settings::default() }.log_filter();
    for good in ["warn", "INFO", "off", "info,echo_node=debug", "echo_node=trace", " warn , sled=error", ""] {
        assert!(filter(good).is_ok(), "{good}");
    }
    filter(&Settings::default().log).unwrap();
    for bad in ["verbose", "inof", "debgu,info", "info,echo_node"] {
        assert!(filter(bad).unwrap_err().contains("is no level"), "{bad}");
    }
    assert!(filter("echo_node=loud").is_err());
}

#[test]
fn a_level_alone_is_of_echo_and_not_of_the_network_library() {
    let enabled = |log: &str| {
        let filter = Settings { log: log.to_owned(), ..Settings::default() }.log_filter().unwrap();
        let subscriber =
            tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::sink).finish();
        tracing::subscriber::with_default(subscriber, || {
            (
                tracing::enabled!(target: "echo_node::runtime", tracing::Level::DEBUG),
                tracing::enabled!(target: "libp2p_swarm", tracing::Level::DEBUG),
                tracing::enabled!(target: "libp2p_swarm", tracing::Level::WARN),
            )
        })
    };
    assert_eq!(enabled("debug"), (true, false, true));
    assert_eq!(enabled(" Trace "), (true, false, true));
    assert_eq!(enabled("info"), (false, false, true));
    assert_eq!(enabled("debug,libp2p=debug"), (true, true, true));
}

#[test]
fn hours_disk_and_battery_are_read_from_every_layer() {
    let dir = tempfile::tempdir().unwrap();
    let text = "hours = \"22:00-07:00\"\nmax_disk = \"20GB\"\non_battery = \"work\"\n";
    fs::write(dir.path().join(FILE_NAME), text).unwrap();
    let flags = Flags { data_dir: Some(dir.path().to_owned()), ..Flags::default() };
    let s = Config::load(&flags, env(&[])).unwrap().settings;
    assert_eq!(s.hours.map(|hours| hours.to_string()).as_deref(), Some("22:00-07:00"));
    assert_eq!((s.max_disk, s.on_battery), (Some(Size(20_000_000_000)), OnBattery::Work));
    let variables = env(&[("ECHO_NODE_HOURS", "08:00-09:00"), ("ECHO_NODE_ON_BATTERY", "pause")]);
    let flags = Flags { max_disk: Some(Size(1 << 30)), ..flags };
    let s = Config::load(&flags, variables).unwrap().settings;
    assert_eq!(s.hours, Some("08:00-09:00".parse().unwrap()));
    assert_eq!((s.max_disk, s.on_battery), (Some(Size(1 << 30)), OnBattery::Pause));
    let text = Config::load(&flags, env(&[("ECHO_NODE_HOURS", "at night")])).unwrap_err().to_string();
    assert!(text.contains("ECHO_NODE_HOURS") && text.contains("22:00-07:00"), "{text}");
}

#[test]
fn a_user_without_a_home_has_to_name_the_data_directory() {
    let load = |flags: &Flags, variables: &[(&str, &str)]| Config::load_below(None, flags, env(variables));
    let text = load(&Flags::default(), &[]).unwrap_err().to_string();
    assert!(text.contains("no home directory") && text.contains("--data-dir"), "{text}");
    let flags = Flags { data_dir: Some("/data".into()), ..Flags::default() };
    let by_env = [("ECHO_NODE_DATA_DIR", "/data")];
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("my.toml");
    fs::write(&file, "data_dir = \"/data\"").unwrap();
    let by_file = Flags { config: Some(file), ..Flags::default() };
    for config in [load(&flags, &[]), load(&Flags::default(), &by_env), load(&by_file, &[])] {
        assert_eq!(config.unwrap().settings.data_dir, Path::new("/data"));
    }
}

#[cfg(unix)]
#[test]
fn a_path_that_is_not_text_is_refused_and_drops_no_other_setting() {
    use std::os::unix::ffi::OsStringExt;
    let odd = || OsString::from_vec(b"caf\xe9".to_vec());
    let refused = |flags: Flags, variables: Vec<(OsString, OsString)>| {
        let text = Config::load(&flags, variables).unwrap_err().to_string();
        assert!(text.contains("caf\\xE9") && text.contains("not UTF-8"), "{text}");
        text
    };
    let data_dir = Flags { data_dir: Some(odd().into()), threads: Some(1), ..Flags::default() };
    assert!(refused(data_dir, Vec::new()).starts_with("flag --data-dir"));
    let peers = Flags { peers: Some(odd().into()), ..Flags::default() };
    assert!(refused(peers, Vec::new()).starts_with("flag --peers"));
    let variable = vec![("ECHO_NODE_DATA_DIR".into(), odd())];
    assert!(refused(Flags::default(), variable).starts_with("environment ECHO_NODE_DATA_DIR"));

    // Where it is the home directory, it matters only until another one is named.
    let home = || Some(PathBuf::from(odd()));
    let text = Config::load_below(home(), &Flags::default(), env(&[])).unwrap_err().to_string();
    assert!(text.contains("default data directory is") && text.contains("not UTF-8"), "{text}");
    let flags = Flags { data_dir: Some("/data".into()), ..Flags::default() };
    Config::load_below(home(), &flags, env(&[])).unwrap();
    // A settings file may have any name, and other variables may hold anything.
    let config = Flags { config: Some(odd().into()), ..Flags::default() };
    assert!(matches!(Config::load(&config, env(&[])), Err(SettingsError::File { .. })));
    Config::load(&Flags::default(), vec![("OTHER".into(), odd()), (odd(), odd())]).unwrap();
}

/// The rows of the page of settings: setting, flag, variable, default.
fn documented() -> Vec<[&'static str; 4]> {
    let page = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/node-settings.md"));
    let table = page.lines().skip_while(|line| !line.starts_with("| setting |")).skip(2);
    let rows = table.take_while(|line| line.starts_with('|'));
    rows.map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        [cells[1], cells[2], cells[3], cells[4]]
    })
    .collect()
}

/// The first piece of code in a cell.
fn code(cell: &str) -> &str {
    cell.split('`').nth(1).unwrap_or_default()
}

#[test]
fn the_reference_has_every_setting_with_its_flag_and_its_variable() {
    let rows = documented();
    let of_page =
        |column: usize| rows.iter().map(|row| code(row[column]).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(of_page(0), Settings::keys().collect::<BTreeSet<_>>());
    assert_eq!(rows.len(), Settings::keys().count(), "none twice");
    for row in &rows {
        let source = |place: &'static str| SettingSource::of(&Metadata::named(place), code(row[0]));
        assert_eq!(source("flag"), SettingSource::Flag(code(row[1]).to_owned()));
        assert_eq!(source("environment"), SettingSource::Env(code(row[2]).to_owned()));
    }
    let command = <Flags as clap::Args>::augment_args(clap::Command::new(NAME));
    let flags = command.get_arguments().filter_map(clap::Arg::get_long).filter(|flag| *flag != "config");
    assert_eq!(of_page(1), flags.map(|flag| format!("--{flag}")).collect::<BTreeSet<_>>());
}

#[test]
fn the_reference_has_the_defaults() {
    let dir = tempfile::tempdir().unwrap();
    let flags = Flags { data_dir: Some(dir.path().to_owned()), ..Flags::default() };
    let load = || Config::load(&flags, env(&[])).map(|config| config.settings);
    let plain = load().unwrap();
    let values = serde_json::to_value(&plain).unwrap();
    for [setting, _, _, default] in documented() {
        let key = code(setting);
        if default == format!("`{}`", code(default)) {
            fs::write(dir.path().join(FILE_NAME), format!("{key} = {}", code(default))).unwrap();
            let set = load().unwrap_or_else(|error| panic!("{key}: {error}"));
            assert_eq!(set, plain, "{key} has another default");
        } else {
            // These depend on the machine; of all others there is none.
            let varies = ["data_dir", "threads"].contains(&key);
            assert!(varies || values[key].is_null(), "{key} has a default: {}", values[key]);
        }
    }
}
