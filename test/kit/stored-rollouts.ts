import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'

interface JournalLine {
  readonly id: string
  readonly line: string
  readonly rollout_id?: string
}

/** Ids of the unfinished rollouts that the folder of an outbox holds. */
export async function storedRollouts(outboxDir: string): Promise<string[]> {
  const names = (await readdir(outboxDir)).filter((name) => /^journal-\d+\.jsonl$/.test(name))
  const accepted = new Map<string, string>()
  const over = new Set<string>()
  for (const name of names.toSorted()) {
    // A file that is removed while it is read has no unfinished rollout that is not in another file.
    const text = await readFile(path.join(outboxDir, name), 'utf8').catch(() => '')
    for (const line of text.split('\n').slice(0, -1)) {
      const { id, line: kind, rollout_id = '' } = JSON.parse(`{${line.slice(1)}`) as JournalLine
      if (kind === 'over' || line.startsWith('-')) over.add(id)
      else if (kind === 'accepted') accepted.set(id, rollout_id)
    }
  }
  return [...accepted].flatMap(([id, rolloutId]) => (over.has(id) ? [] : [rolloutId]))
}
