//! A service made of functions, each with its own types for parameters and result.
//!
//! Reading the parameters, writing the result and describing both follow from the types, so that they cannot differ.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::schema::MethodDescription;
use crate::service::{CallContext, MethodError, Service};

/// Functions over a shared `S`, by name.
pub struct Methods<S> {
    shared: S,
    table: BTreeMap<&'static str, Method<S>>,
}

struct Method<S> {
    description: MethodDescription,
    call: Box<Call<S>>,
}

type Call<S> = dyn Fn(&S, Value, &CallContext) -> Result<Value, MethodError> + Send + Sync;

impl<S: Send + Sync + 'static> Methods<S> {
    /// No methods yet, over what they all share.
    pub fn new(shared: S) -> Methods<S> {
        Methods { shared, table: BTreeMap::new() }
    }

    /// Adds a method. A later one of the same name takes its place.
    pub fn add<P, R>(
        mut self,
        name: &'static str,
        summary: &'static str,
        function: impl Fn(&S, P, &CallContext) -> Result<R, MethodError> + Send + Sync + 'static,
    ) -> Methods<S>
    where
        P: DeserializeOwned + JsonSchema,
        R: Serialize + JsonSchema,
    {
        let call = move |shared: &S, params: Value, context: &CallContext| {
            let params = serde_json::from_value(params)
                .map_err(|error| MethodError::InvalidParams(error.to_string()))?;
            let result = function(shared, params, context)?;
            serde_json::to_value(result).map_err(|error| MethodError::Failed {
                kind: "unwritable_result",
                message: format!("the result cannot be written as JSON: {error}"),
            })
        };
        let description = MethodDescription::of::<P, R>(name, summary);
        self.table.insert(name, Method { description, call: Box::new(call) });
        self
    }
}

impl<S: Send + Sync + 'static> Service for Methods<S> {
    fn call(
        &self,
        method: &str,
        params: Value,
        context: &CallContext,
    ) -> Result<Value, MethodError> {
        match self.table.get(method) {
            Some(method) => (method.call)(&self.shared, params, context),
            None => Err(MethodError::UnknownMethod(method.to_owned())),
        }
    }

    fn methods(&self) -> Vec<MethodDescription> {
        self.table.values().map(|method| method.description.clone()).collect()
    }
}
