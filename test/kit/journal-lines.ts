import { readFileSync } from 'node:fs'
import { crc32 } from 'node:zlib'

/** An event as a line of `events.jsonl`, with the checksum that its readers ask for and a newline. */
export function journalLine(event: object): string {
  const { crc32: _old, ...rest } = event as { crc32?: unknown }
  const text = JSON.stringify(rest).slice(0, -1)
  return `${text},"crc32":${crc32(text)}}\n`
}

/** The events of a journal, as its lines have them but for the checksum. */
export function journalEvents<Event extends object>(file: string): Event[] {
  const lines = readFileSync(file, 'utf8').split('\n')
  return lines
    .filter((line) => line !== '')
    .map((line) => {
      const { crc32: _checksum, ...event } = JSON.parse(line) as Event & { crc32: number }
      return event as unknown as Event
    })
}
