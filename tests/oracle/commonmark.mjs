// Says what the reference implementation of CommonMark reads: one JSON string a line, one JSON tree a line back.

import * as readline from 'node:readline'
import { Parser } from 'commonmark'

const parser = new Parser()

const inline = (node, marks, out) => {
  for (let child = node.firstChild; child; child = child.next) {
    switch (child.type) {
      case 'text': out.push(['text', child.literal, [...marks].sort()]); break
      case 'code': out.push(['text', child.literal, [...marks, 'code'].sort()]); break
      case 'softbreak': out.push(['text', ' ', [...marks].sort()]); break
      case 'linebreak': out.push(['break']); break
      case 'emph': inline(child, [...marks, 'em'], out); break
      case 'strong': inline(child, [...marks, 'strong'], out); break
      case 'link': inline(child, [...marks, `link ${decode(child.destination)} ${child.title ?? ''}`], out); break
      case 'image': { const alt = []; inline(child, [], alt); out.push(['image', decode(child.destination), child.title ?? '', alt.map(one => one[1] ?? '').join('')]); break }
      default: out.push([child.type, child.literal])
    }
  }
  return out
}
const decode = url => { try { return decodeURI(url) } catch { return url } }

const block = node => {
  const children = () => { const out = []; for (let child = node.firstChild; child; child = child.next) out.push(block(child)); return out }
  switch (node.type) {
    case 'document': return ['doc', children()]
    case 'paragraph': return ['paragraph', inline(node, [], [])]
    case 'heading': return ['heading', node.level, inline(node, [], [])]
    case 'block_quote': return ['blockquote', children()]
    case 'list': return node.listType === 'bullet' ? ['bullet_list', children()] : ['ordered_list', node.listStart, children()]
    case 'item': return ['list_item', children()]
    case 'code_block': return ['code_block', node.info ?? '', node.literal.replace(/\n$/, '')]
    case 'thematic_break': return ['horizontal_rule']
    default: return [node.type, node.literal]
  }
}

for await (const line of readline.createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(block(parser.parse(JSON.parse(line)))))
}
