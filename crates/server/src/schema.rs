//! The published description: every method with its parameters and its result, as JSON Schema made from the Rust types.
//!
//! The document is one JSON Schema resource, so that `$ref`s into its `$defs` work with any validator.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::message::{ErrorCode, Id};
use crate::progress::{PROGRESS, ProgressParams};
use crate::service::Service;

/// Describes the server; handled by every server.
pub(crate) const DESCRIBE: &str = "system.describe";

/// Presents the token on a raw TCP connection.
pub(crate) const AUTHENTICATE: &str = "authenticate";

/// Cancels requests of the same connection.
pub(crate) const CANCEL: &str = "$/cancel";

/// What a client should know about a method.
#[derive(Clone, Debug)]
pub struct MethodDescription {
    name: &'static str,
    summary: &'static str,
    params: fn(&mut SchemaGenerator) -> Schema,
    result: fn(&mut SchemaGenerator) -> Schema,
}

impl MethodDescription {
    /// Describes a method by its types.
    pub fn of<P: JsonSchema, R: JsonSchema>(
        name: &'static str,
        summary: &'static str,
    ) -> MethodDescription {
        MethodDescription {
            name,
            summary,
            params: SchemaGenerator::subschema_for::<P>,
            result: SchemaGenerator::subschema_for::<R>,
        }
    }

    /// What it is called.
    pub fn name(&self) -> &'static str {
        self.name
    }

    fn to_json(&self, generator: &mut SchemaGenerator) -> Value {
        json!({
            "summary": self.summary,
            "params": (self.params)(generator),
            "result": (self.result)(generator),
        })
    }
}

/// The parameters of `authenticate`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct AuthenticateParams {
    /// The token that the server printed when it started.
    pub token: String,
}

/// The parameters of `$/cancel`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct CancelParams {
    /// The id of the request to cancel.
    pub id: Id,
}

/// No parameters.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Nothing {}

/// The description of a service: what `system.describe` returns and `docs/api.schema.json` holds.
pub fn schema_document(service: &dyn Service) -> Value {
    // For parameters, what may be left out is what matters. Read as the shape of results it is only less strict.
    let mut generator = SchemaSettings::draft2020_12().for_deserialize().into_generator();
    let mut descriptions = built_in_methods();
    descriptions.extend(service.methods());
    let methods: Map<String, Value> = descriptions
        .iter()
        .map(|method| (method.name.to_owned(), method.to_json(&mut generator)))
        .collect();
    let progress = json!({
        "summary": "Sent by the server: how far a request with a progressToken has come.",
        "params": generator.subschema_for::<ProgressParams>(),
    });
    let errors: Vec<Value> = ErrorCode::ALL
        .iter()
        .map(|code| json!({ "code": code.number(), "meaning": code.meaning() }))
        .collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The Retrospect API",
        "version": env!("CARGO_PKG_VERSION"),
        "methods": methods,
        "notifications": { PROGRESS: progress },
        "errors": errors,
        "$defs": generator.take_definitions(true),
    })
}

fn built_in_methods() -> Vec<MethodDescription> {
    vec![
        MethodDescription::of::<AuthenticateParams, ()>(
            AUTHENTICATE,
            "Presents the token; must be the first line of a raw TCP connection.",
        ),
        MethodDescription::of::<CancelParams, ()>(
            CANCEL,
            "Cancels a request of the same connection. Usually sent as a notification.",
        ),
        MethodDescription::of::<Nothing, Value>(DESCRIBE, "Returns this document."),
    ]
}
