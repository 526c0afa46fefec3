import type { EmbeddedReport, EmbeddedTranscripts, TranscriptAnswer } from '../../src/wire.ts'
import type { Source } from './source.ts'

/** A report: everything is in the page, transcripts packed in pieces that are opened when needed. */
export function reportSource(text: string): Source {
  const report = JSON.parse(text) as EmbeddedReport
  const opened = new Map<string, Promise<TranscriptAnswer[]>>()

  const piece = (run: string, { pieces }: EmbeddedTranscripts, index: number) => {
    const key = `${index}/${run}`
    const found = opened.get(key) ?? unpack(pieces[index] ?? '')
    opened.set(key, found)
    return found
  }

  return {
    kind: 'report',
    only: report.summaries.length === 1 ? report.summaries[0]?.name : undefined,
    runs: async () => Promise.resolve(report.summaries),
    run: async (name) => {
      const run = Object.hasOwn(report.runs, name) ? report.runs[name] : undefined
      return run === undefined
        ? Promise.reject(new Error('This report does not hold that run.'))
        : Promise.resolve(run)
    },
    transcript: async (run, [row, attempt]) => {
      const embedded = report.transcripts[run]
      const index = embedded?.items.indexOf(`${row}.${attempt}`) ?? -1
      if (embedded === undefined || index < 0) return { state: 'left out' }
      const transcripts = await piece(run, embedded, Math.floor(index / embedded.pieceSize))
      return transcripts[index % embedded.pieceSize] ?? { state: 'left out' }
    },
  }
}

async function unpack(base64: string): Promise<TranscriptAnswer[]> {
  const bytes = Uint8Array.from(atob(base64), (character) => character.codePointAt(0) ?? 0)
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))
  return (await new Response(stream).json()) as TranscriptAnswer[]
}
