use super::*;
use crate::model::weights::DType;

pub(crate) fn text(model_type: &str, extra: &str) -> String {
    format!(
        r#"{{"model_type":"{model_type}","vocab_size":32,"hidden_size":16,"intermediate_size":24,"num_hidden_layers":2,
        "num_attention_heads":4,"num_key_value_heads":2,"max_position_embeddings":64{extra}}}"#
    )
}

#[test]
fn both_rope_forms_mean_the_same() {
    let llama3 = r#""rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,
        "original_max_position_embeddings":8192"#;
    let older = text("llama", &format!(r#","rope_theta":500000.0,"rope_scaling":{{{llama3}}}"#));
    let newer = text("llama", &format!(r#","rope_parameters":{{"rope_theta":500000.0,{llama3}}}"#));
    let older = ModelConfig::from_json(&older).unwrap();
    assert_eq!(older, ModelConfig::from_json(&newer).unwrap());
    assert_eq!(older.rope_theta, 500_000.0);
    assert!(matches!(older.rope_scaling, RopeScaling::Llama3 { .. }));
    let typed = text("llama", r#","rope_scaling":{"type":"linear","factor":2}"#);
    let typed = ModelConfig::from_json(&typed).unwrap();
    assert_eq!(typed.inv_freq()[0], 0.5);
}

#[test]
fn llama3_scaling_keeps_high_and_divides_low_frequencies() {
    let mut config =
        ModelConfig::from_json(&text("llama", r#","head_dim":128,"rope_theta":500000.0"#)).unwrap();
    let plain = config.inv_freq();
    config.rope_scaling = RopeScaling::Llama3 {
        factor: 8.0,
        low_freq_factor: 1.0,
        high_freq_factor: 4.0,
        original_positions: 8192,
    };
    let scaled = config.inv_freq();
    assert_eq!(scaled[0], plain[0]);
    assert_eq!(scaled[63], plain[63] / 8.0);
    assert!(scaled.iter().zip(&plain).any(|(s, p)| *s < *p && *s > *p / 8.0));
}

#[test]
fn a_token_has_a_key_and_a_value_in_each_layer() {
    let config = ModelConfig::from_json(&text("llama", "")).unwrap();
    // Two layers of two heads of 4, keys and values, four bytes each.
    assert_eq!(config.key_value_bytes_per_token(), 2 * 2 * 4 * 2 * 4);
}

#[test]
fn what_is_written_reads_back() {
    for (kind, extra) in [
        ("qwen3", r#","head_dim":8,"tie_word_embeddings":true,"eos_token_id":[3,4],"attention_bias":true"#),
        ("qwen2", r#","eos_token_id":3,"bos_token_id":1"#),
        ("llama", r#","mlp_bias":true,"rope_scaling":{"rope_type":"linear","factor":2.0},"pad_token_id":0"#),
    ] {
        let config = ModelConfig::from_json(&text(kind, extra)).unwrap();
        let again = ModelConfig::from_json(&config.to_json(DType::BF16)).unwrap();
        assert_eq!(config, again);
    }
}

#[test]
fn what_is_not_supported_is_named() {
    for (kind, extra, named) in [
        ("qwen3", r#","hidden_act":"gelu""#, "gelu"),
        ("qwen2", r#","use_sliding_window":true,"sliding_window":32,"max_window_layers":1"#, "sliding"),
        ("qwen3", r#","layer_types":["full_attention","sliding_attention"]"#, "sliding"),
        ("qwen2", r#","rope_scaling":{"type":"yarn","factor":4.0}"#, "yarn"),
        ("llama", r#","rope_parameters":{"rope_type":"default","partial_rotary_factor":0.5}"#, "partial"),
    ] {
        let error = ModelConfig::from_json(&text(kind, extra)).unwrap_err();
        assert!(matches!(error, ModelConfigError::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains(named), "{error}");
    }
    let error = ModelConfig::from_json(&text("gemma3_text", "")).unwrap_err().to_string();
    assert!(error.contains("family `gemma3_text`") && error.contains("qwen3, qwen2 or llama"), "{error}");
    assert!(!error.contains("without it"), "{error}");
}

#[test]
fn a_window_that_hides_nothing_is_taken() {
    for (kind, extra) in [
        ("qwen2", r#","use_sliding_window":true,"sliding_window":32,"max_window_layers":2"#),
        // 28 layers have none where the file does not say.
        ("qwen2", r#","use_sliding_window":true,"sliding_window":32"#),
        ("qwen3", r#","use_sliding_window":true,"sliding_window":null,"max_window_layers":0"#),
        ("qwen3", r#","use_sliding_window":false,"sliding_window":32,"max_window_layers":0"#),
        // As wide as the longest sequence.
        ("qwen2", r#","use_sliding_window":true,"sliding_window":64,"max_window_layers":0"#),
        ("qwen2", r#","use_sliding_window":true,"max_window_layers":0"#),
        ("qwen3", r#","layer_types":["sliding_attention","full_attention"],"sliding_window":64"#),
        ("llama", r#","use_sliding_window":true,"sliding_window":32,"max_window_layers":0"#),
    ] {
        ModelConfig::from_json(&text(kind, extra)).unwrap_or_else(|error| panic!("{kind}{extra}: {error}"));
    }
    let linear = r#","layer_types":["linear_attention","full_attention"],"sliding_window":64"#;
    let error = ModelConfig::from_json(&text("qwen3", linear)).unwrap_err().to_string();
    assert!(error.contains("linear_attention"), "{error}");
}

#[test]
fn absent_fields_are_what_transformers_takes_for_them() {
    let parse = |kind: &str, extra: &str| ModelConfig::from_json(&text(kind, extra)).unwrap();
    assert_eq!(["qwen3", "qwen2", "llama"].map(|kind| parse(kind, "").head_dim), [128, 4, 4]);
    assert_eq!(parse("llama", r#","head_dim":null"#).head_dim, 4);
    assert_eq!(parse("llama", r#","hidden_act":"swish","eos_token_id":[3,4]"#).eos_token_ids, [3, 4]);
    let positions = |kind: &str| {
        let short = text(kind, "").replace(r#","max_position_embeddings":64"#, "");
        ModelConfig::from_json(&short).unwrap().max_position_embeddings
    };
    assert_eq!(["qwen3", "qwen2", "llama"].map(positions), [32_768, 32_768, 2048]);
    assert!(parse("qwen2", r#","attention_bias":false"#).has_qkv_bias());
}

#[test]
fn rope_objects_that_say_nothing_stretch_nothing() {
    let parse = |extra: &str| ModelConfig::from_json(&text("llama", extra));
    for extra in [
        r#","rope_scaling":{},"rope_theta":5000.0"#,
        r#","rope_scaling":null,"rope_theta":5000"#,
        r#","rope_parameters":{"rope_theta":5000.0}"#,
        r#","rope_parameters":{},"rope_theta":5000.0"#,
        r#","rope_parameters":{"rope_type":"default","rope_theta":5000.0},"rope_scaling":{}"#,
    ] {
        let config = parse(extra).unwrap();
        assert_eq!((config.rope_theta, config.rope_scaling), (5000.0, RopeScaling::Default), "{extra}");
    }
    let typeless = parse(r#","rope_scaling":{"factor":2.0}"#).unwrap_err().to_string();
    assert!(typeless.contains("rope_type"), "{typeless}");
    let two = r#","rope_parameters":{"rope_type":"default"},"rope_scaling":{"type":"linear","factor":2.0}"#;
    let two = parse(two).unwrap_err().to_string();
    assert!(two.contains("rope_parameters and rope_scaling differ"), "{two}");
}

#[test]
fn hostile_sizes_are_refused() {
    for extra in [
        r#","head_dim":0"#,
        r#","head_dim":7"#,
        r#","head_dim":18446744073709551615"#,
        r#","head_dim":-2"#,
        r#","rms_norm_eps":0"#,
        r#","rope_theta":-1"#,
        r#","rope_scaling":{"rope_type":"linear","factor":0}"#,
    ] {
        assert!(ModelConfig::from_json(&text("qwen3", extra)).is_err(), "{extra}");
    }
    for (from, to) in [
        ("\"vocab_size\":32", "\"vocab_size\":99999999999"),
        ("\"num_key_value_heads\":2", "\"num_key_value_heads\":3"),
        ("\"num_attention_heads\":4", "\"num_attention_heads\":0"),
        ("\"num_hidden_layers\":2", "\"num_hidden_layers\":1000000"),
    ] {
        let hostile = text("qwen3", "").replace(from, to);
        assert!(ModelConfig::from_json(&hostile).is_err(), "{to}");
    }
    assert!(ModelConfig::from_json(&" ".repeat(MAX_CONFIG_BYTES as usize + 1)).is_err());
    assert!(ModelConfig::from_json("[]").is_err());
}
