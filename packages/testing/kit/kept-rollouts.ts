import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'

interface JournalLine {
  readonly id: string
  readonly line: string
  readonly rollout_id?: string
}

/** Ids of the rollouts that an outbox keeps, as its folder has them. */
export async function keptRollouts(outboxDir: string): Promise<string[]> {
  const names = (await readdir(outboxDir)).filter((name) => /^journal-\d+\.jsonl$/.test(name))
  const kept = new Map<string, string>()
  const over = new Set<string>()
  for (const name of names.toSorted()) {
    // One that goes while it is looked at has nothing that is not elsewhere, or over.
    const text = await readFile(path.join(outboxDir, name), 'utf8').catch(() => '')
    for (const line of text.split('\n').slice(0, -1)) {
      const { id, line: kind, rollout_id = '' } = JSON.parse(`{${line.slice(1)}`) as JournalLine
      if (kind === 'over' || line.startsWith('-')) over.add(id)
      else if (kind === 'accepted') kept.set(id, rollout_id)
    }
  }
  return [...kept].flatMap(([id, rolloutId]) => (over.has(id) ? [] : [rolloutId]))
}
