// Times what the editors' own libraries take for one document: node bench.mjs <update file> <updates file>; one JSON line back.

import { readFileSync } from 'node:fs'
import * as Y from 'yjs'
import { yDocToProsemirrorJSON } from 'y-prosemirror'
import { Node } from 'prosemirror-model'
import { defaultMarkdownSerializer, schema } from 'prosemirror-markdown'

const [updateFile, updatesFile] = process.argv.slice(2)
const update = readFileSync(updateFile)
const packed = readFileSync(updatesFile)
const updates = []
for (let at = 0; at < packed.length;) { const length = packed.readUInt32LE(at); updates.push(packed.subarray(at + 4, at + 4 + length)); at += 4 + length }

const median = list => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)]
const timed = (times, work) => median(Array.from({ length: times }, () => { const begun = performance.now(); work(); return (performance.now() - begun) / 1000 }))
const loaded = () => { const doc = new Y.Doc(); Y.applyUpdate(doc, update); return doc }

const load = timed(3, () => Y.encodeStateAsUpdate(loaded()))
const doc = loaded()
const append = updates.length ? timed(1, () => updates.forEach(one => Y.applyUpdate(doc, one))) : 0

const texts = []
const walk = node => node.toArray().forEach(child => { if (child instanceof Y.XmlText) { if (child.length) texts.push(child) } else walk(child) })
walk(doc.getXmlFragment('prosemirror'))
const positions = Array.from({ length: 1000 }, (_, n) => { const text = texts[(n * 7919) % texts.length]; return Y.encodeRelativePosition(Y.createRelativePositionFromTypeIndex(text, (n * 31) % text.length)) })
const resolve = timed(3, () => positions.forEach(one => Y.createAbsolutePositionFromRelativePosition(Y.decodeRelativePosition(one), doc)))

const NAMES = { bullet_list: 'bullet_list', list_item: 'list_item' }
const json = () => yDocToProsemirrorJSON(doc, 'prosemirror')
const clean = node => ({ ...node, type: NAMES[node.type] ?? node.type, content: node.content?.map(clean) })
const projection = timed(3, () => defaultMarkdownSerializer.serialize(Node.fromJSON(schema, clean(json()))))

console.log(JSON.stringify({ load, append, resolve, projection }))
