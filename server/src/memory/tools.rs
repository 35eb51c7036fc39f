//! What the six tools say of themselves: they teach an agent how to remember.

use serde_json::{Value, json};

use crate::protocol::family::Tool;

pub(super) const INSTRUCTIONS: &str = "The memory tools keep facts between conversations: call `context` first to see what is known \
     and which attributes there are, `record` what should last, and `recall` it by a query or by \
     words. Nothing is overwritten: `history` and `as-of` show what was believed when.";

/// All tools, in the order in which an agent meets them.
pub(super) fn all() -> Vec<Tool> {
    vec![context(), record(), recall(), read(), history(), turns()]
}

fn read_only() -> Value {
    json!({
        "readOnlyHint": true,
        "destructiveHint": false,
        "idempotentHint": true,
        "openWorldHint": false
    })
}

fn schema(properties: Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false
    })
}

fn entity_argument() -> Value {
    json!({
        "type": ["string", "integer"],
        "description": "The entity: its id 1001, its ident \":colour/red\", or a lookup ref \
                        \"[:person/name \\\"Ada\\\"]\" by a unique attribute."
    })
}

fn moment_argument() -> Value {
    json!({
        "type": "integer",
        "minimum": 0,
        "description": "Answer as the memory was after this t. Every turn has one."
    })
}

fn context() -> Tool {
    Tool {
        name: "context",
        title: "What is remembered",
        description: "Read this first. Gives this session, the current t, the vocabulary (the \
                      attributes that facts may have), how many turns this session has, and the \
                      facts of the most recent turns of all sessions."
            .to_owned(),
        input_schema: schema(json!({}), &[]),
        output_schema: None,
        annotations: read_only(),
    }
}

fn record() -> Tool {
    Tool {
        name: "record",
        title: "Remember facts",
        description: "Record one turn: all of `tx` or, when something is wrong, nothing. When it \
                      answers, the facts are on disk. Time and session are noted by themselves.\n\
                      \n\
                      First register attributes, in a turn of their own: [{:db/ident :person/name \
                      :db/valueType :db.type/string :db/cardinality :db.cardinality/one \
                      :db/unique :db.unique/identity} {:db/ident :person/friend :db/valueType \
                      :db.type/ref :db/cardinality :db.cardinality/many}]. Types: string long \
                      double boolean instant keyword uuid ref bigint bytes. Options: \
                      :db/unique :db.unique/identity (the value names the entity) or \
                      :db.unique/value, :db/fulltext true (searched by recall's `text`), \
                      :db/isComponent true, :db/doc \"…\".\n\
                      \n\
                      Then facts: [{:person/name \"Ada\" :person/friend [{:person/name \
                      \"Grace\"} \"x\"]} {:db/id \"x\" :person/name \"Edsger\"} [:db/add \
                      [:person/name \"Ada\"] :person/age 36] [:db/retract [:person/name \"Ada\"] \
                      :person/age 36] [:db/retractEntity 1001]]. A string :db/id is a name within \
                      this turn. An entity with a known unique identity is found again, not made \
                      twice. A new value of an attribute with cardinality one replaces the old, \
                      which stays in the history."
            .to_owned(),
        input_schema: schema(
            json!({
                "tx": {
                    "type": "string",
                    "description": "An EDN vector of entity maps and [:db/add e a v], [:db/retract \
                                    e a v], [:db/retractEntity e] lists."
                },
                "source": {
                    "type": ["string", "integer"],
                    "description": "The turn that these facts are derived from: its :turn or :t. \
                                    Kept as :memory/source of this turn."
                }
            }),
            &["tx"],
        ),
        output_schema: None,
        annotations: json!({
            "readOnlyHint": false,
            "destructiveHint": false,
            "idempotentHint": false,
            "openWorldHint": false
        }),
    }
}

fn recall() -> Tool {
    Tool {
        name: "recall",
        title: "Ask for facts",
        description: "Ask by `query` (Datalog) or by `text` (words, \"a phrase\", a begin* in \
                      attributes with :db/fulltext). The first text is the result, the second \
                      says whether it was cut and how to get the rest.\n\
                      \n\
                      [:find ?name ?age :where [?e :person/name ?name] [?e :person/age ?age] [(< \
                      30 ?age)]] finds rows; :find [?name ...] a list, [?name ?age] one row, \
                      ?name . one value. A pattern is [entity attribute value turn]; _ is \
                      anything. Also (not [?e :person/age]), (or [..] [..]), (not-join [?e] ..), \
                      (or-join [?e] ..), functions [(+ ?a 1) ?b], [(get-else $ ?e :person/age 0) \
                      ?a], [(missing? $ ?e :person/age)], [(fulltext $ :note/text \"tea\") [[?e \
                      ?text]]], aggregates (count ?e) (sum ?a) (min ?a) (max ?a) (avg ?a) \
                      (count-distinct ?a) (sample 3 ?a), and (pull ?e [:person/name \
                      {:person/friend [:person/name]}]). When a fact was recorded: [?e \
                      :person/age ?a ?turn] [?turn :db/txInstant ?when] [?turn :memory/session \
                      ?s].\n\
                      \n\
                      With inputs: query [:find ?e :in $ ?name :where [?e :person/name ?name]], \
                      args [\"Ada\"]. With rules: query [:find ?f :in $ % ?name :where [?p \
                      :person/name ?name] (knows ?p ?f)], args [[[(knows ?a ?b) [?a \
                      :person/friend ?b]] [(knows ?a ?b) [?a :person/friend ?c] (knows ?c ?b)]] \
                      \"Ada\"]."
            .to_owned(),
        input_schema: schema(
            json!({
                "query": {"type": "string", "description": "A Datalog query in EDN."},
                "args": {
                    "type": "string",
                    "description": "An EDN vector with a value for each name in :in, without $."
                },
                "as-of": moment_argument(),
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "The most rows to give; 100 when not said."
                },
                "text": {
                    "type": "string",
                    "description": "Words to search for, instead of a query."
                }
            }),
            &[],
        ),
        output_schema: None,
        annotations: read_only(),
    }
}

fn read() -> Tool {
    Tool {
        name: "read",
        title: "Read one entity",
        description: "Give one entity as a map: all its attributes, or those of a `pattern`, such \
                      as [:person/name {:person/friend [:person/name]} :person/_friend \
                      (:person/alias :limit 5 :default [])]. _ before a name follows a reference \
                      backwards; {:person/friend 3} follows it three deep, ... to the end."
            .to_owned(),
        input_schema: schema(
            json!({
                "entity": entity_argument(),
                "pattern": {
                    "type": "string",
                    "description": "An EDN pull pattern; [*] when not said."
                },
                "as-of": moment_argument()
            }),
            &["entity"],
        ),
        output_schema: None,
        annotations: read_only(),
    }
}

fn history() -> Tool {
    Tool {
        name: "history",
        title: "What was believed when",
        description: "Give every assertion and retraction about an entity, oldest first: {:a \
                      attribute :v value :added false-for-a-retraction :t :inst :session}."
            .to_owned(),
        input_schema: schema(
            json!({
                "entity": entity_argument(),
                "attribute": {
                    "type": "string",
                    "description": "Only this attribute: \":person/age\"."
                }
            }),
            &["entity"],
        ),
        output_schema: None,
        annotations: read_only(),
    }
}

fn turns() -> Tool {
    Tool {
        name: "turns",
        title: "The turns of a session",
        description: "List the turns of a session, newest first. When there are more, a second \
                      text says which `before` to go on with. What a turn said: recall with query \
                      [:find ?e ?a ?v :in $ ?turn :where [?e ?attr ?v ?turn] [?attr :db/ident \
                      ?a]] and args [the :turn]."
            .to_owned(),
        input_schema: schema(
            json!({
                "session": {
                    "type": "string",
                    "description": "The id of a session; this one when not said."
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "The most turns to give; 20 when not said."
                },
                "before": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "Only turns with a smaller t."
                }
            }),
            &[],
        ),
        output_schema: None,
        annotations: read_only(),
    }
}
