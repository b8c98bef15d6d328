//! What an answer must cover: every open item, each once, and no other.

use crate::model::{Reply, ReplyItem};
use crate::refusal::{Code, Fault, No, Refusal};
use crate::schema;
use crate::store::asks::ItemRow;

/// An act bound to its asks answers exactly those: signed before another question was
/// asked, it says nothing about that one.
pub(crate) fn same_asks(open: &[ItemRow], signed_for: &[String]) -> Result<(), No> {
    if let Some(unknown) = signed_for.iter().find(|id| !open.iter().any(|item| item.id == **id)) {
        return Err(unknown_ask(unknown, open));
    }
    let missing: Vec<&str> =
        open.iter().map(|item| item.id.as_str()).filter(|id| !signed_for.iter().any(|named| named == id)).collect();
    if missing.is_empty() { Ok(()) } else { Err(incomplete(missing.into_iter())) }
}

/// The answer covers every open item, names no unknown one, each once.
pub(crate) fn cover(open: &[ItemRow], reply: Reply) -> Result<Vec<ReplyItem>, No> {
    let Reply { items, single } = reply;
    if let (Some(payload), [only]) = (single, open) {
        return Ok(vec![ReplyItem { id: only.id.clone(), kind: only.kind, abandoned: false, payload: Some(payload) }]);
    }
    if items.is_empty() {
        return Err(incomplete(open.iter().map(|item| item.id.as_str())));
    }
    for (at, item) in items.iter().enumerate() {
        if items[..at].iter().any(|earlier| earlier.id == item.id) {
            return Err(Refusal::new(
                Code::AnswerDuplicate,
                format!("answer: {:?} is answered twice, once is enough", item.id),
            )
            .into());
        }
        if !open.iter().any(|known| known.id == item.id) {
            return Err(unknown_ask(&item.id, open));
        }
    }
    let missing: Vec<&str> =
        open.iter().map(|i| i.id.as_str()).filter(|id| !items.iter().any(|item| item.id == *id)).collect();
    if !missing.is_empty() {
        return Err(incomplete(missing.into_iter()));
    }
    // Kinds as asked: a caller cannot turn an approval into a call's result.
    Ok(items
        .into_iter()
        .map(|mut item| {
            if let Some(known) = open.iter().find(|known| known.id == item.id) {
                item.kind = known.kind;
            }
            item
        })
        .collect())
}

/// What is answered fits the schema its question demands. An abandoned question has no
/// answer to fit; a schema that the gate refused is nobody's to satisfy, or whoever asks
/// could lock out whoever may answer.
pub(crate) fn fits(open: &[ItemRow], items: &[ReplyItem]) -> Result<(), No> {
    for item in items.iter().filter(|item| !item.abandoned) {
        let asked = open.iter().find(|known| known.id == item.id && known.schema.as_deref() == Some(schema::ENFORCED));
        let Some(text) = asked.and_then(|asked| schema::of_question(&asked.question)) else { continue };
        // It was let through when it was asked; that it is not now is our failure.
        let schema = schema::gate(&text).map_err(|_| Fault::Corrupt("ask_item.schema"))?;
        if let Err(violation) = schema.check(item.payload.as_deref().unwrap_or("null")) {
            return Err(Refusal::new(Code::AnswerSchema, format!("answer: to {:?} {violation}", item.id)).into());
        }
    }
    Ok(())
}

fn list<'a>(ids: impl Iterator<Item = &'a str>) -> String {
    ids.map(|id| format!("{id:?}")).collect::<Vec<_>>().join(", ")
}

fn unknown_ask(id: &str, open: &[ItemRow]) -> No {
    let open = list(open.iter().map(|item| item.id.as_str()));
    Refusal::new(Code::AnswerUnknownAsk, format!("answer: {id:?} is not open here, open is {open}")).into()
}

fn incomplete<'a>(missing: impl Iterator<Item = &'a str>) -> No {
    Refusal::new(Code::AnswerIncomplete, format!("answer: {} not answered, all open items go together", list(missing)))
        .into()
}
