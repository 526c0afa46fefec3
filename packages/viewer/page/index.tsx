import { transcriptContains } from '@osmosis/eval/analysis'
import { render } from 'preact'

import type { EmbeddedReport, ItemName, Packed, TranscriptAnswer } from '../src/wire.ts'
import { App } from './app.tsx'
import { liveSource } from './source/live-source.ts'
import type { Source } from './source/source.ts'

const root = document.querySelector('#app')
if (root !== null) render(<App source={openSource()} />, root)

/** The report in this page, or else the server of this page. */
function openSource(): Source {
  const embedded = document.querySelector('#embedded')?.textContent
  return embedded ? reportSource(embedded) : liveSource()
}

/** A report: all data is in the page, compressed, and unpacked when needed. */
function reportSource(embedded: string): Source {
  const report = JSON.parse(embedded) as EmbeddedReport
  const { items, pieces, pieceSize } = report.transcripts
  const opened = new Map<string, Promise<readonly TranscriptAnswer[]>>()

  const piece = (packed: Packed<readonly TranscriptAnswer[]>) => {
    const found = opened.get(packed) ?? unpack(packed)
    opened.set(packed, found)
    return found
  }

  return {
    kind: 'report',
    only: report.first,
    held: items.length,
    runs: async () => Promise.resolve([report.summary]),
    run: async (name) => {
      const run = own(report.runs, name)
      if (run === undefined) throw new Error('This report does not hold that run.')
      return unpack(run)
    },
    transcript: async (run, item) => {
      const name = item.join('.')
      const index = items.indexOf(name)
      const packed = pieces[Math.floor(index / pieceSize)]
      const ending = own(own(report.endings, run) ?? {}, name)
      const omitted = { state: 'omitted', ending: ending ?? null } as const
      if (packed === undefined) return omitted
      const transcript = (await piece(packed))[index % pieceSize]
      if (transcript === undefined) return omitted
      return ending === undefined ? transcript : { ...transcript, ending }
    },
    search: async (_run, words, signal) => {
      const found: ItemName[] = []
      for (const [place, packed] of pieces.entries()) {
        signal.throwIfAborted()
        const text = await unpackText(packed)
        // Most pieces lack one of the words, which needs no parsing to find out.
        const lower = text.toLowerCase()
        if (!words.every((word) => lower.includes(JSON.stringify(word).slice(1, -1)))) continue
        for (const [index, transcript] of (JSON.parse(text) as TranscriptAnswer[]).entries()) {
          if (transcript.state !== 'found') continue
          if (!words.every((word) => transcriptContains(transcript.samples, word))) continue
          const [row = 0, attempt = 0] = (items[place * pieceSize + index] ?? '')
            .split('.')
            .map(Number)
          found.push([row, attempt])
        }
      }
      return found
    },
  }
}

/** Names come from users, who may choose `__proto__`. */
function own<T>(record: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(record, name) ? record[name] : undefined
}

async function unpack<T>(packed: Packed<T>): Promise<T> {
  return JSON.parse(await unpackText(packed)) as T
}

async function unpackText(packed: Packed<unknown>): Promise<string> {
  const bytes = Uint8Array.from(atob(packed), (character) => character.codePointAt(0) ?? 0)
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))
  return new Response(stream).text()
}
