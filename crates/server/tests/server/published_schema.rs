//! The published description is that of the code.

use std::fs;
use std::path::Path;

use retro_server::schema_document;
use serde_json::{Value, json};

use crate::clients::{Client, Lines, request};
use crate::fake::{methods, start};
use crate::recorded::ledger;

/// `RETRO_BLESS=1` writes what the code has now.
#[test]
fn the_file_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api.schema.json");
    let now = format!("{:#}\n", schema_document(ledger().service()));
    if std::env::var_os("RETRO_BLESS").is_some() {
        fs::write(&path, &now).unwrap();
    }
    let published = fs::read_to_string(&path).unwrap();
    assert_eq!(published, now, "run the tests with RETRO_BLESS=1 to write docs/api.schema.json");
}

#[test]
fn servers_describe_themselves() {
    let server = start();
    let described = Lines::unix(&server).call(&request(1, "system.describe", json!({})));
    assert_eq!(described["result"], schema_document(&methods(server.seen.clone())));
    let count = &described["result"]["methods"]["count"];
    assert_eq!(count["summary"], "Counts.");
    let params = resolve(&described["result"], &count["params"]);
    assert_eq!(params["required"], json!(["to"]));
    assert_eq!(params["properties"]["limit"]["maximum"], 10_000);
}

#[test]
fn every_reference_leads_somewhere() {
    for document in
        [schema_document(&methods(Default::default())), schema_document(ledger().service())]
    {
        let mut references = Vec::new();
        gather_references(&document, &mut references);
        assert!(!references.is_empty());
        for reference in references {
            assert!(document.pointer(&reference[1..]).is_some(), "{reference}");
        }
    }
}

fn resolve<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema.get("$ref").and_then(Value::as_str) {
        Some(reference) => document.pointer(&reference[1..]).unwrap(),
        None => schema,
    }
}

fn gather_references(value: &Value, references: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| gather_references(item, references)),
        Value::Object(members) => {
            references.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
            members.values().for_each(|member| gather_references(member, references));
        }
        _ => {}
    }
}
