import type { CallbackDelivery } from '../delivery/callback-delivery.ts'
import type { Outbox } from '../delivery/outbox.ts'
import type { ServerMetrics } from '../metrics/server-metrics.ts'
import type { ServerRoute } from './server-route.ts'

/** The route at which Prometheus asks for the figures of a server. */
export function metricsRoute(metrics: ServerMetrics): ServerRoute {
  return {
    method: 'GET',
    path: '/metrics',
    summary: 'Figures of the server, for Prometheus',
    answers: { 200: { description: 'Prometheus text format', mediaType: 'text/plain' } },
    handle: async () => ({
      status: 200,
      headers: { 'content-type': metrics.contentType },
      body: await metrics.text(),
    }),
  }
}

/** Shows the figures that servers of all protocols have. */
export function showShared(
  metrics: ServerMetrics,
  {
    delivery,
    outbox,
    inFlight,
  }: {
    readonly delivery: CallbackDelivery
    readonly outbox: Outbox | undefined
    /** How many rollouts are in flight. */
    readonly inFlight: () => number | Promise<number>
  },
): void {
  metrics.gauge(
    'osmosis_rollouts_in_flight',
    'Rollouts that were accepted and are not over, the delivery of their results included.',
    inFlight,
  )
  metrics.gauges(
    'osmosis_callbacks_undelivered',
    'Callbacks that are still to be told: sending, or gave_up for now and kept in the outbox.',
    'state',
    () => delivery.undeliveredByState,
  )
  metrics.gauge(
    'osmosis_callback_oldest_seconds',
    'Age of the oldest callback that is still being sent; 0 when there is none.',
    () => delivery.oldestSeconds,
  )
  if (outbox === undefined) return
  metrics.gauge(
    'osmosis_outbox_rollouts',
    'Rollouts that the outbox keeps: accepted and not told in full, or with a result that can be fetched.',
    () => outbox.count,
  )
}
