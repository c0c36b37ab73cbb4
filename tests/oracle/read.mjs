// Says what y-prosemirror reads in documents: one Yjs update a line in base64, one JSON document a line back.

import * as readline from 'node:readline'
import * as Y from 'yjs'
import { yDocToProsemirrorJSON } from 'y-prosemirror'

for await (const line of readline.createInterface({ input: process.stdin })) {
  const doc = new Y.Doc()
  Y.applyUpdate(doc, Buffer.from(line, 'base64'))
  console.log(JSON.stringify(yDocToProsemirrorJSON(doc, 'prosemirror')))
}
