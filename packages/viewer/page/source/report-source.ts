import { transcriptContains } from '@osmosis/eval/analysis'

import type {
  EmbeddedReport,
  EmbeddedTranscripts,
  ItemName,
  Packed,
  TranscriptAnswer,
} from '../../src/wire.ts'
import type { Source } from './source.ts'

/** A report: everything is in the page, packed, and opened when it is needed. */
export function reportSource(text: string): Source {
  const report = JSON.parse(text) as EmbeddedReport
  const opened = new Map<string, Promise<readonly TranscriptAnswer[]>>()

  /** A re-grading has the transcripts of its run. */
  const transcriptsOf = (run: string): EmbeddedTranscripts | undefined =>
    own(report.transcripts, run) ?? own(report.transcripts, run.split('@')[0] ?? '')

  const piece = (packed: Packed<readonly TranscriptAnswer[]>) => {
    const found = opened.get(packed) ?? unpack(packed)
    opened.set(packed, found)
    return found
  }

  return {
    kind: 'report',
    only: report.first,
    held: (run) => transcriptsOf(run)?.items.length ?? 0,
    runs: async () => Promise.resolve([report.summary]),
    run: async (name) => {
      const run = own(report.runs, name)
      if (run === undefined) throw new Error('This report does not hold that run.')
      return unpack(run)
    },
    transcript: async (run, item) => {
      const embedded = transcriptsOf(run)
      const name = item.join('.')
      const index = embedded?.items.indexOf(name) ?? -1
      const packed = embedded?.pieces[Math.floor(index / embedded.pieceSize)]
      if (embedded === undefined || packed === undefined) return { state: 'omitted' }
      const transcript = (await piece(packed))[index % embedded.pieceSize]
      const ending = own(report.endings[run] ?? {}, name)
      if (transcript === undefined) return { state: 'omitted' }
      return ending === undefined ? transcript : { ...transcript, ending }
    },
    search: async (run, words, signal) => {
      const { items = [], pieces = [], pieceSize = 1 } = transcriptsOf(run) ?? {}
      const found: ItemName[] = []
      for (const [place, packed] of pieces.entries()) {
        signal.throwIfAborted()
        const said = await unpackText(packed)
        // Most pieces hold one of the words not at all, which is seen without parsing them.
        const lower = said.toLowerCase()
        if (!words.every((word) => lower.includes(JSON.stringify(word).slice(1, -1)))) continue
        for (const [index, transcript] of (JSON.parse(said) as TranscriptAnswer[]).entries()) {
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

/** Names come from users: `__proto__` is one, too. */
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
