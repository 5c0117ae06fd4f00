"""The what-if page: a demand in a form, and the verdict, the charts and the plan that follow from it, on loopback."""
