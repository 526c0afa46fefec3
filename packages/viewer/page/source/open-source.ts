import { liveSource } from './live-source.ts'
import { reportSource } from './report-source.ts'
import type { Source } from './source.ts'

/** The report that this page holds, else the server that it comes from. */
export function openSource(): Source {
  const embedded = document.querySelector('#embedded')?.textContent
  return embedded ? reportSource(embedded) : liveSource()
}
