import { liveSource } from './live-source.ts'
import { reportSource } from './report-source.ts'
import type { Source } from './source.ts'

/** The report in this page, or else the server of this page. */
export function openSource(): Source {
  const embedded = document.querySelector('#embedded')?.textContent
  return embedded ? reportSource(embedded) : liveSource()
}
