import type { ServerResponse } from 'node:http'

import { HttpPeer, type PeerRequest } from './http-peer.ts'

interface Attribute {
  readonly key: string
  readonly value: { readonly stringValue?: string; readonly intValue?: string }
}

interface LogsBody {
  readonly resourceLogs: readonly [
    {
      readonly resource: { readonly attributes: readonly Attribute[] }
      readonly scopeLogs: readonly [
        { readonly logRecords: readonly { readonly attributes: readonly Attribute[] }[] },
      ]
    },
  ]
}

/** A collector that receives which server has which rollouts. */
export class OwnershipCollector extends HttpPeer {
  readonly records: Record<string, string | undefined>[] = []
  readonly paths = new Set<string>()
  resource: unknown

  protected override receive({ path, body }: PeerRequest, response: ServerResponse): void {
    const [{ resource, scopeLogs }] = (body as unknown as LogsBody).resourceLogs
    this.paths.add(path)
    this.resource = resource
    for (const { attributes } of scopeLogs[0].logRecords) {
      const entries = attributes.map(({ key, value }) => [key, value.stringValue ?? value.intValue])
      this.records.push(Object.fromEntries(entries) as Record<string, string>)
    }
    response.writeHead(200).end('{}')
    this.wake()
  }
}
