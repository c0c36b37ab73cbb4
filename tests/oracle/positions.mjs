// Makes documents by several clients at once, and says what Yjs and y-prosemirror make of positions in them.
// usage: node positions.mjs <seed> <documents> <positions per document>; one JSON line a document.

import * as Y from 'yjs'
import { initProseMirrorDoc, relativePositionToAbsolutePosition, yDocToProsemirrorJSON } from 'y-prosemirror'
import { schema as basic } from 'prosemirror-schema-basic'

const [seed, documents, wanted] = process.argv.slice(2).map(Number)

// mulberry32: small, and the same everywhere
let state = seed >>> 0
const random = () => {
  state = (state + 0x6d2b79f5) | 0
  let t = Math.imul(state ^ (state >>> 15), 1 | state)
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296
}
const below = n => Math.floor(random() * n)
const pick = list => list[below(list.length)]

const LETTERS = ['a', 'b', ' ', 'é', 'ß', 'é', '日', '本', 'ع', 'ש', '😀', '👩‍🚀', '𝒳', '\u200d', '\n', 'z', '.', '1']
const word = () => Array.from({ length: 1 + below(6) }, () => pick(LETTERS)).join('')

const textOf = content => {
  const text = new Y.XmlText()
  if (content) text.insert(0, content)
  return text
}
const block = (name, content) => {
  const element = new Y.XmlElement(name)
  if (name === 'heading') element.setAttribute('level', 1 + below(3))
  element.insert(0, [textOf(content)])
  return element
}

const blocks = fragment => {
  const found = []
  const walk = node => {
    for (const child of node.toArray()) {
      if (!(child instanceof Y.XmlElement)) continue
      if (child.nodeName === 'blockquote') walk(child)
      else found.push(child)
    }
  }
  walk(fragment)
  return found
}
const texts = fragment => blocks(fragment).flatMap(b => b.toArray().filter(c => c instanceof Y.XmlText))

const EDITS = {
  type: f => { const t = pick(texts(f)); t?.insert(below(t.length + 1), word()) },
  erase: f => { const t = pick(texts(f)); if (t?.length) { const at = below(t.length); t.delete(at, 1 + below(Math.min(4, t.length - at))) } },
  format: f => { const t = pick(texts(f)); if (t?.length) { const at = below(t.length); t.format(at, 1 + below(t.length - at), { [pick(['strong', 'em', 'code', 'link--abcdEFGH'])]: random() < 0.3 ? null : { } }) } },
  split: f => {
    const b = pick(blocks(f)); const t = b?.toArray().find(c => c instanceof Y.XmlText && c.length)
    if (!t) return
    const at = below(t.length + 1); const rest = t.toString().replace(/<[^>]*>/g, '')
    const index = b.parent.toArray().indexOf(b)
    t.delete(at, t.length - at)
    b.parent.insert(index + 1, [block('paragraph', rest.slice(at))])
  },
  join: f => {
    const all = f.toArray(); if (all.length < 2) return
    const at = below(all.length - 1)
    if (all[at].nodeName === 'blockquote' || all[at + 1].nodeName === 'blockquote') return
    const t = all[at].toArray().find(c => c instanceof Y.XmlText)
    t?.insert(t.length, all[at + 1].toArray().filter(c => c instanceof Y.XmlText).map(c => c.toString().replace(/<[^>]*>/g, '')).join(''))
    f.delete(at + 1, 1)
  },
  move: f => { if (f.length < 2) return; const from = below(f.length); const node = f.get(from); const copy = node.clone(); f.delete(from, 1); f.insert(below(f.length + 1), [copy]) },
  wrap: f => { if (!f.length) return; const at = below(f.length); const copy = f.get(at).clone(); f.delete(at, 1); const quote = new Y.XmlElement('blockquote'); quote.insert(0, [copy]); f.insert(at, [quote]) },
  heading: f => { const b = pick(blocks(f)); if (b?.nodeName === 'heading') b.setAttribute('level', 1 + below(6)) },
  add: f => f.insert(below(f.length + 1), [block(pick(['paragraph', 'heading']), random() < 0.2 ? '' : word())]),
  remove: f => { if (f.length > 1) f.delete(below(f.length), 1) },
  break: f => {
    const b = pick(blocks(f)); if (!b) return
    b.insert(b.length, [new Y.XmlElement('hard_break'), textOf(word())])
  },
  image: f => { const b = pick(blocks(f)); if (!b) return; const image = new Y.XmlElement('image'); image.setAttribute('src', 'a.png'); b.insert(b.length, [image]) }
}
const NAMES = [...Object.keys(EDITS), 'type', 'type', 'type', 'erase']

const nodesOf = fragment => {
  const found = [fragment]
  const walk = node => node.toArray().forEach(child => { found.push(child); if (child instanceof Y.XmlElement) walk(child) })
  walk(fragment)
  return found
}
const hex = bytes => Buffer.from(bytes).toString('hex')
const idOf = type => type._item === null ? null : [type._item.id.client, type._item.id.clock]

for (let number = 0; number < documents; number++) {
  const clients = [0, 1, 2].map(n => { const doc = new Y.Doc(); doc.clientID = 1000 * (number + 1) + 7 * n + below(7); return doc })
  const managers = clients.map(doc => new Y.UndoManager(doc.getXmlFragment('prosemirror')))
  clients[0].getXmlFragment('prosemirror').insert(0, [block('paragraph', word()), block('paragraph', word())])
  const kept = []
  const synchronise = (from, to) => Y.applyUpdate(to, Y.encodeStateAsUpdate(from, Y.encodeStateVector(to)))
  for (const doc of clients) synchronise(clients[0], doc)
  for (let step = 0; step < 60; step++) {
    const doc = pick(clients)
    const fragment = doc.getXmlFragment('prosemirror')
    if (random() < 0.05) managers[clients.indexOf(doc)].undo()
    else if (random() < 0.03) managers[clients.indexOf(doc)].redo()
    else doc.transact(() => EDITS[pick(NAMES)](fragment))
    if (random() < 0.3) synchronise(doc, pick(clients))
    if (kept.length < wanted) {
      for (let n = 0; n < Math.ceil(wanted / 60); n++) {
        const type = pick(nodesOf(fragment))
        kept.push(hex(Y.encodeRelativePosition(Y.createRelativePositionFromTypeIndex(type, below(type.length + 1), pick([0, -1])))))
      }
    }
  }
  for (const one of clients) for (const other of clients) synchronise(one, other)
  for (const one of clients) for (const other of clients) synchronise(one, other)

  // A document that was just loaded: what a local undo remembers is not in it.
  const load = () => { const doc = new Y.Doc(); Y.applyUpdate(doc, Y.encodeStateAsUpdate(clients[0])); return doc }
  const doc = load()
  const fragment = doc.getXmlFragment('prosemirror')
  const json = yDocToProsemirrorJSON(doc, 'prosemirror')
  const update = Y.encodeStateAsUpdate(doc)

  const encoded = []
  const nodes = nodesOf(fragment)
  for (let n = 0; n < wanted; n++) {
    const type = pick(nodes)
    const index = below(type.length + 1)
    const assoc = pick([0, -1])
    encoded.push([idOf(type), index, assoc, hex(Y.encodeRelativePosition(Y.createRelativePositionFromTypeIndex(type, index, assoc)))])
  }
  const standing = type => { for (let t = type; t._item !== null; t = t._item.parent) if (t._item.deleted) return false; return true }
  const resolved = kept.map(position => {
    const found = Y.createAbsolutePositionFromRelativePosition(Y.decodeRelativePosition(Buffer.from(position, 'hex')), doc)
    return [position, found === null || !standing(found.type) ? null : [idOf(found.type), found.index]]
  })

  const shown = load()
  const { mapping } = initProseMirrorDoc(shown.getXmlFragment('prosemirror'), basic)
  const isWhole = hex(Y.encodeStateAsUpdate(shown)) === hex(update)
  const prosemirror = !isWhole ? [] : encoded.slice(0, 60).map(([, , , position]) =>
    [position, relativePositionToAbsolutePosition(shown, shown.getXmlFragment('prosemirror'), Y.decodeRelativePosition(Buffer.from(position, 'hex')), mapping)])

  const updates = clients.map(client => Buffer.from(Y.encodeStateAsUpdate(client)).toString('base64'))
  console.log(JSON.stringify({ update: Buffer.from(update).toString('base64'), updates, json, encoded, resolved, prosemirror }))
}
